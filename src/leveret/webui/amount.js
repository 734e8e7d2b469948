// A number with a bar below it that shows its share.

import { h } from "./dom.js";
import { number } from "./format.js";
import { numeric } from "./table.js";

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

/**
 * The lag of each row, in proportion to the largest.
 * @param {() => import("./table.js").Row[]} rows
 */
export function lagColumn(rows) {
  const largest = () => rows().reduce((most, row) => Math.max(most, row.lag ?? 0), 1);
  return numeric("Lag", "lag", ([lag, most]) => amount(lag / most, number(lag)), {
    width: "m",
    value: (row) => [row.lag, largest()],
  });
}
