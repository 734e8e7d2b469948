// A number with a bar below it that shows its share.

import { h } from "./dom.js";

/**
 * A `part` of 1 fills the bar; `isMuch` highlights it.
 * @param {number} part
 * @param {string} text
 * @param {boolean} isMuch
 */
export function amount(part, text, isMuch = false) {
  const filled = h("i", {});
  filled.style.width = `${(Math.min(Math.max(part || 0, 0), 1) * 100).toFixed(1)}%`;
  return h(
    "span",
    { class: `amount${isMuch ? " much" : ""}` },
    h("span", {}, text),
    h("u", { "aria-hidden": "true" }, filled),
  );
}
