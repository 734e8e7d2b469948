// A button that saves bytes as a file.

import { h } from "./dom.js";
import { notifyError } from "./notices.js";

/**
 * `load()` returns the bytes.
 * @param {string} label
 * @param {string} filename
 * @param {() => Uint8Array | Promise<Uint8Array>} load
 */
export function downloadButton(label, filename, load) {
  const button = h("button", { type: "button" }, label);
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      save(filename, await load());
    } catch (problem) {
      notifyError(problem);
    }
    button.disabled = false;
  });
  return button;
}

/**
 * @param {string} filename
 * @param {Uint8Array} bytes
 */
function save(filename, bytes) {
  const file = new Blob([/** @type {Uint8Array<ArrayBuffer>} */ (bytes)], { type: "application/octet-stream" });
  const address = URL.createObjectURL(file);
  const link = document.createElement("a");
  link.href = address;
  link.download = filename;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000); // the browser reads it after the click
}
