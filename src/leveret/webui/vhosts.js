// Selection of a virtual host, hidden if there is only one.

import { get } from "./api.js";
import { fill, h } from "./dom.js";
import { keepState, keptState } from "./list_state.js";

/**
 * Names of the virtual hosts that the user may see, sorted; empty if the request fails.
 * @param {AbortSignal} [signal]
 * @returns {Promise<string[]>}
 */
export function vhostNames(signal) {
  return loadedNames(signal).catch(() => []);
}

/**
 * @param {AbortSignal} [signal]
 * @returns {Promise<string[]>}
 */
async function loadedNames(signal) {
  /** @type {{ name: string }[]} */
  const vhosts = await get("/api/vhosts", { columns: "name" }, { signal });
  return vhosts.map((one) => one.name).sort();
}

/** The virtual host in the URL; "" for all. */
export function keptVhost() {
  return keptState("vhost") ?? "";
}

/**
 * A select for the tools of a list, preset from the URL; its value is "" for all virtual hosts.
 * @param {AbortSignal} signal
 * @param {(vhost: string) => void} choose
 */
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
  /** @param {string[]} names */
  const offer = (names) => {
    if (signal.aborted) return; // the URL belongs to another page by now
    if (keptVhost() && !names.includes(keptVhost())) forgetChoice(); // the virtual host no longer exists
    if (names.length < 2) return;
    fill(
      select,
      h("option", { value: "" }, "All virtual hosts"),
      names.map((name) => h("option", { value: name, selected: name === keptVhost() }, name)),
    );
    select.hidden = false;
  };
  loadedNames(signal).then(offer, () => {}); // keep the selection if the request fails
  return select;
}
