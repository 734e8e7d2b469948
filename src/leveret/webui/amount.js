// A number with a bar under it that tells how large it is beside the others.

import { h } from "./dom.js";

/** `part` of 1 is filled; `isMuch` colours it as something to look at. */
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
