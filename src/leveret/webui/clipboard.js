// Text for somewhere else.

import { h } from "./dom.js";
import { tell, tellError } from "./notices.js";

const REFUSED = {
  title: "Not copied",
  reason: "The browser keeps the clipboard to itself: mark the text and copy it by hand.",
};

/** A button that copies the text; nothing where the browser offers no clipboard, as on pages without TLS. */
export function copyButton(text) {
  const copy = () =>
    navigator.clipboard.writeText(text).then(
      () => tell("Copied."),
      () => tellError(REFUSED),
    );
  return navigator.clipboard && h("button", { type: "button", onclick: copy }, "Copy");
}
