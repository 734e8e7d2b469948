// An input for a new password, with a button that generates one.

import { copyButton } from "./clipboard.js";
import { h } from "./dom.js";

const LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789"; // none that look alike
const LENGTH = 24; // about 140 bits

/** A random password. */
export function generatedPassword() {
  const most = 256 - (256 % LETTERS.length); // larger bytes would prefer some letters
  let password = "";
  while (password.length < LENGTH) {
    for (const byte of crypto.getRandomValues(new Uint8Array(LENGTH))) {
      if (byte < most && password.length < LENGTH) password += LETTERS[byte % LETTERS.length];
    }
  }
  return password;
}

/**
 * A generated password is shown, because the user has to copy it.
 * @param {import("./dom.js").Properties} properties
 */
export function passwordInput(properties = {}) {
  const input = h("input", {
    name: "password",
    type: "password",
    autocomplete: "new-password",
    "aria-label": "Password", // the label of the field also contains the buttons
    ...properties,
  });
  const generate = () => {
    input.type = "text";
    input.value = generatedPassword();
    input.select();
  };
  return h(
    "span",
    { class: "with-button" },
    input,
    h("button", { type: "button", onclick: generate }, "Generate"),
    copyButton(() => input.value),
  );
}
