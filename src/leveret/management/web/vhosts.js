// Virtual hosts to choose from. Where there is but one, nobody is asked.

import { get } from "./api.js";
import { fill, h } from "./dom.js";
import { keepState, keptState } from "./list_state.js";

/** Those that the user may see, in order. */
export async function vhostNames(signal) {
  const vhosts = await get("/api/vhosts", { columns: "name" }, { signal }).catch(() => []); // lists work without
  return (vhosts ?? []).map((one) => one.name).sort();
}

/** The one that the address names; "" for all of them. */
export function keptVhost() {
  return keptState("vhost") ?? "";
}

/** A select for the tools of a list; its value is "" for all of them. It begins with what the address names. */
export function vhostChoice(signal, choose) {
  const select = h("select", { "aria-label": "Virtual host", hidden: true });
  select.addEventListener("change", () => {
    keepState({ vhost: select.value });
    choose(select.value);
  });
  const forgetChoice = () => {
    keepState({ vhost: "" });
    choose("");
  };
  vhostNames(signal).then((names) => {
    if (keptVhost() && !names.includes(keptVhost())) forgetChoice(); // an old address
    if (names.length < 2) return;
    fill(select, h("option", { value: "" }, "All virtual hosts"), names.map((name) => h("option", { value: name, selected: name === keptVhost() }, name)));
    select.hidden = false;
  });
  return select;
}
