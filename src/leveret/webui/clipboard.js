// Text for somewhere else.

import { h } from "./dom.js";
import { tell, tellError } from "./notices.js";

const REFUSED = {
  title: "Not copied",
  reason: "The browser blocked clipboard access: select the text and copy it.",
};

/** A button that copies the text; nothing where the browser offers no clipboard, as on pages without TLS. */
export function copyButton(text) {
  const copy = () =>
    navigator.clipboard.writeText(text).then(
      () => tell("Copied to clipboard."),
      () => tellError(REFUSED),
    );
  return navigator.clipboard && h("button", { type: "button", onclick: copy }, "Copy");
}
