// Names and values for a definition list.

import { h } from "./dom.js";

/** @param {Record<string, unknown>} values undefined and null are left out */
export function facts(values) {
  return Object.entries(values)
    .filter(([, value]) => value !== undefined && value !== null)
    .map(([name, value]) => [h("dt", {}, name), h("dd", {}, textOf(value))]);
}

/** @param {unknown} value */
function textOf(value) {
  return typeof value === "object" ? JSON.stringify(value, null, 1) : String(value);
}
