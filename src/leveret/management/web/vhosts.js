// Virtual hosts to choose from. Where there is but one, nobody is asked.

import { get } from "./api.js";
import { fill, h } from "./dom.js";

/** Those that the user may see, in order. */
export async function vhostNames(signal) {
  const vhosts = await get("/api/vhosts", { columns: "name" }, { signal }).catch(() => []); // lists work without
  return (vhosts ?? []).map((one) => one.name).sort();
}

/** A select for the tools of a list; its value is "" for all of them. */
export function vhostChoice(signal, choose) {
  const select = h("select", { "aria-label": "Virtual host", hidden: true, onchange: () => choose(select.value) });
  vhostNames(signal).then((names) => {
    if (names.length < 2) return;
    fill(select, h("option", { value: "" }, "All virtual hosts"), names.map((name) => h("option", { value: name }, name)));
    select.hidden = false;
  });
  return select;
}
