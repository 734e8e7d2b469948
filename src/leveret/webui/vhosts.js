// Virtual hosts to choose from. Where there is but one, nobody is asked.

import { get } from "./api.js";
import { fill, h } from "./dom.js";
import { keepState, keptState } from "./list_state.js";

/** Those that the user may see, in order; none where the broker does not tell: lists work without. */
export function vhostNames(signal) {
  return toldNames(signal).catch(() => []);
}

async function toldNames(signal) {
  const vhosts = await get("/api/vhosts", { columns: "name" }, { signal });
  return vhosts.map((one) => one.name).sort();
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
  const offer = (names) => {
    if (signal.aborted) return; // the address is another page's by now
    if (keptVhost() && !names.includes(keptVhost())) forgetChoice(); // an old address
    if (names.length < 2) return;
    fill(
      select,
      h("option", { value: "" }, "All virtual hosts"),
      names.map((name) => h("option", { value: name, selected: name === keptVhost() }, name)),
    );
    select.hidden = false;
  };
  toldNames(signal).then(offer, () => {}); // a choice is not given up because nobody answers
  return select;
}
