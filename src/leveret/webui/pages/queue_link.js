// The name of a queue in a list, as a link. If the list is too narrow for the column of virtual hosts, the name of a
// virtual host other than / follows: different virtual hosts may have queues of the same name.

import { h } from "../dom.js";
import { link } from "../router.js";

export function queueLink(vhost, name) {
  return [h("a", { href: link`/queues/${vhost}/${name}`, title: name }, name), vhostSuffix(vhost)];
}

export function vhostSuffix(vhost) {
  return vhost !== "/" && h("small", { class: "where faint" }, ` in ${vhost}`);
}
