// Forms and dialogs.

import { fill, h } from "./dom.js";
import { openDialog, problemBox } from "./notices.js";

/**
 * @typedef {import("./dom.js").Child} Child
 *
 * The FormData of a form without files.
 * @typedef {{ get(name: string): string, has(name: string): boolean }} Given
 */

/**
 * A field with its label: field("Name", h("input", {name: "name"}), "hint").
 * @param {string} label
 * @param {HTMLElement} control
 * @param {string} [hint]
 */
export function field(label, control, hint) {
  return h("label", { class: "field" }, h("span", {}, label), control, hint && h("small", { class: "faint" }, hint));
}

/**
 * An input for a name or a routing key, without autocompletion and spell check.
 * @param {string} name
 * @param {import("./dom.js").Properties} properties
 */
export function textInput(name, properties = {}) {
  return h("input", { name, maxlength: "255", autocomplete: "off", spellcheck: "false", ...properties });
}

/**
 * @param {string} label
 * @param {string} name
 * @param {boolean} isOn
 */
export function check(label, name, isOn = false) {
  return h("label", { class: "check" }, h("input", { type: "checkbox", name, checked: isOn }), label);
}

/**
 * @param {string} name
 * @param {string[]} options
 * @param {string | undefined} value
 */
export function choice(name, options, value) {
  return h(
    "select",
    { name },
    options.map((one) => h("option", { value: one, selected: one === value }, one)),
  );
}

/**
 * A form that shows its errors. `send` receives the FormData; the button is disabled until it completes.
 * @param {Child[]} fields
 * @param {string} action
 * @param {(given: Given) => Promise<unknown>} send
 */
export function form(fields, action, send) {
  const trouble = h("div", {});
  const button = h("button", { class: "strong", type: "submit" }, action);
  const element = h("form", {}, fields, trouble, h("div", { class: "actions" }, button));
  element.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    fill(trouble);
    try {
      await send(/** @type {Given} */ (/** @type {unknown} */ (new FormData(element))));
    } catch (problem) {
      fill(trouble, problemBox(problem));
    } finally {
      button.disabled = false;
    }
  });
  return element;
}

/**
 * Opens a dialog, which is removed when it is closed or its page is left. Returns a function that closes it.
 * @param {string} title
 * @param {Child} content
 */
export function dialog(title, content) {
  const close = () => element.close();
  const element = h(
    "dialog",
    { class: "dialog", "aria-label": title },
    h(
      "header",
      {},
      h("h2", {}, title),
      h("button", { type: "button", class: "quiet", "aria-label": "Close", onclick: close }, "×"),
    ),
    content,
  );
  window.addEventListener("hashchange", close);
  document.body.append(element);
  openDialog(element, () => {
    window.removeEventListener("hashchange", close);
    element.remove();
  });
  const first = element.querySelector("form :is(input, select, textarea, [type=submit])");
  if (first instanceof HTMLElement) first.focus(); // instead of the close button
  return close;
}

/**
 * A dialog that deletes an object for good. With `label`, the user types the name of the object to confirm.
 * @param {object} options
 * @param {string} options.kind
 * @param {string} options.name
 * @param {string} options.text
 * @param {string | false} options.label
 * @param {string} [options.title]
 * @param {Child[]} [options.fields] further fields
 * @param {(given: Given) => Promise<void>} options.act
 */
export function deletionDialog({ kind, name, text, label, title = `Delete ${kind} ${name}`, fields = [], act }) {
  const typed = h("input", { name: "typed", required: true, autocomplete: "off", spellcheck: "false" });
  const confirmation = label && [
    h("p", { class: "typed-name" }, "Type ", h("code", {}, name), " to confirm."),
    field(label, typed),
  ];
  const warning = h("p", { class: "typed-name" }, text, " This cannot be undone.");
  const element = form([warning, fields, confirmation], `Delete ${kind}`, async (given) => {
    await act(given);
    close();
  });
  const action = /** @type {HTMLButtonElement} */ (element.querySelector("[type=submit]"));
  action.classList.add("danger-strong");
  action.disabled = Boolean(label);
  typed.addEventListener("input", () => {
    action.disabled = typed.value !== name;
  });
  const close = dialog(title, element);
}
