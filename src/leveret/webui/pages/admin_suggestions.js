// Suggestions of existing names while the user types. Any name can be entered.

import { get } from "../api.js";
import { fill, h } from "../dom.js";

const TYPING = 200;
const SHOWN = 20;

let number = 0;

/** An input with suggestions from the list at the URL that `source()` returns, if any. */
export function suggestionInput(properties, source, signal) {
  number += 1;
  const list = h("datalist", { id: `suggestions-${number}` });
  const input = h("input", {
    autocomplete: "off",
    spellcheck: "false",
    maxlength: "255",
    list: list.id,
    ...properties,
  });
  let timer = 0;
  const ask = async () => {
    const address = source();
    if (!address || signal.aborted) return fill(list);
    const found = await get(
      address,
      { page: 1, page_size: SHOWN, sort: "name", columns: "name", name: input.value },
      { signal },
    ).catch(() => null); // suggestions are optional
    return (
      found &&
      fill(
        list,
        found.items.filter((one) => one.name).map((one) => h("option", { value: one.name })),
      )
    );
  };
  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(ask, TYPING);
  };
  input.addEventListener("input", soon);
  input.addEventListener("focus", soon);
  signal.addEventListener("abort", () => clearTimeout(timer));
  return { input, element: h("span", { class: "suggestionInput" }, input, list) };
}
