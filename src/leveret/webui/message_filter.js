// Which messages of a queue are meant: by a selector over headers, by a piece of the body, by a place in JSON.

import { h } from "./dom.js";

export const FILTERS = [
  { name: "contains", label: "Body contains", hint: "Body contains …" },
  { name: "json", label: "JSON path and value", hint: "JSON: customer.id=42" },
  { name: "selector", label: "Header selector", hint: "Selector: colour = 'red'" },
];

// A control that is called "contains" would stand in the place of the form's own method of this name.
const CONTROL = "filter-";

/** A control for one of them. */
export function filterInput({ name, label, hint }, value = "") {
  return h("input", {
    type: "search",
    name: CONTROL + name,
    placeholder: hint,
    "aria-label": label,
    value,
    autocomplete: "off",
    spellcheck: "false",
  });
}

/** What the controls of a form ask for, under the names of the API. */
export function filterOf(given) {
  const asked = FILTERS.map(({ name }) => [name, given.get(CONTROL + name) ?? ""]);
  return Object.fromEntries(asked.filter(([, text]) => text.trim()));
}
