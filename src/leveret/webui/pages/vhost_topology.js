// The topology of a whole virtual host.

import { fill, h } from "../dom.js";
import { objectHead } from "../layout.js";
import { go, link } from "../router.js";
import { vhostNames } from "../vhosts.js";
import { topologyPicture } from "./topology.js";

export const path = "/topology/:vhost";
export const under = "Exchanges";
export const title = ({ vhost }) => `Topology of ${vhost}`;

const TYPING = 250;

export function show(place, { vhost }, signal) {
  const select = h("select", {
    "aria-label": "Virtual host",
    hidden: true,
    onchange: () => go(link`/topology/${select.value}`.slice(1)),
  });
  const picture = topologyPicture(vhost, null, signal);
  let typing = 0;
  const filter = h("input", {
    type: "search",
    placeholder: "Filter by name or routing key",
    "aria-label": "Filter the topology",
    oninput: () => {
      clearTimeout(typing);
      typing = setTimeout(() => signal.aborted || picture.setFilter(filter.value.trim()), TYPING);
    },
  });
  fill(place, objectHead("Topology", `of virtual host ${vhost}`, filter, select), picture.element);
  vhostNames(signal).then((names) => {
    fill(
      select,
      names.map((name) => h("option", { value: name, selected: name === vhost }, name)),
    );
    select.hidden = names.length < 2;
  });
}
