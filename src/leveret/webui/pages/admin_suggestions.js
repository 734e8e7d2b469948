// Names to choose from while somebody types. What is typed stays free: a name need not exist.

import { get } from "../api.js";
import { fill, h } from "../dom.js";

const TYPING = 200;
const SHOWN = 20;

let number = 0;

/** An input with suggestions: `source()` gives the address of a list to look in, or null. */
export function suggesting(properties, source, signal) {
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
    ).catch(() => null); // typing works without
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
  return { input, element: h("span", { class: "suggesting" }, input, list) };
}
