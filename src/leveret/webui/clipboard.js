// A button that copies text.

import { h } from "./dom.js";
import { notify, notifyError } from "./notices.js";

const REFUSED = {
  title: "Not copied",
  reason: "The browser blocked clipboard access: select the text and copy it.",
};

/**
 * Undefined if the browser has no clipboard API, as without TLS.
 * @param {string | (() => string)} text
 */
export function copyButton(text) {
  const copy = () =>
    navigator.clipboard.writeText(typeof text === "string" ? text : text()).then(
      () => notify("Copied to clipboard."),
      () => notifyError(REFUSED),
    );
  return navigator.clipboard && h("button", { type: "button", onclick: copy }, "Copy");
}
