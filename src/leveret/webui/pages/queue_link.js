// The name of a queue in a list, leading there. Where the list is too narrow for a column of virtual hosts, the name of
// another one than / stands beside it: queues of different ones may be called the same.

import { h } from "../dom.js";
import { link } from "../router.js";

export function queueLink(vhost, name) {
  return [h("a", { href: link`/queues/${vhost}/${name}`, title: name }, name), whereIf(vhost)];
}

export function whereIf(vhost) {
  return vhost !== "/" && h("small", { class: "where faint" }, ` in ${vhost}`);
}
