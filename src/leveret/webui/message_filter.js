// Filters for messages: a selector over headers, a part of the body, a JSON path.

import { h } from "./dom.js";

export const FILTERS = [
  { name: "contains", label: "Body contains", hint: "Body contains …" },
  { name: "json", label: "JSON path and value", hint: "JSON: customer.id=42" },
  { name: "selector", label: "Header selector", hint: "Selector: colour = 'red'" },
];

// A prefix, because a control named "contains" would hide the form's method of that name.
const CONTROL = "filter-";

/**
 * The input of one filter.
 * @param {{ name: string, label: string, hint: string }} filter
 * @param {string} value
 */
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

/**
 * The filters of a form as query parameters of the API.
 * @param {{ get(name: string): any }} given
 */
export function filterOf(given) {
  const asked = FILTERS.map(({ name }) => [name, given.get(CONTROL + name) ?? ""]);
  return Object.fromEntries(asked.filter(([, text]) => text.trim()));
}
