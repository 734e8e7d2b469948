// Forms and dialogues.

import { fill, h } from "./dom.js";
import { openDialogue, problemBox } from "./notices.js";

/** A field with its label: field("Name", h("input", {name: "name"}), "what it is for"). */
export function field(label, control, hint) {
  return h("label", { class: "field" }, h("span", {}, label), control, hint && h("small", { class: "faint" }, hint));
}

export function check(label, name, isOn = false) {
  return h("label", { class: "check" }, h("input", { type: "checkbox", name, checked: isOn }), label);
}

export function choice(name, options, value) {
  return h(
    "select",
    { name },
    options.map((one) => h("option", { value: one, selected: one === value }, one)),
  );
}

/** A form whose errors show in it. `send(values)` gets a FormData; while it waits, the button rests. */
export function form(fields, action, send) {
  const trouble = h("div", {});
  const button = h("button", { class: "strong", type: "submit" }, action);
  const element = h("form", {}, fields, trouble, h("div", { class: "actions" }, button));
  element.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    fill(trouble);
    try {
      await send(new FormData(element));
    } catch (problem) {
      fill(trouble, problemBox(problem));
    } finally {
      button.disabled = false;
    }
  });
  return element;
}

/** A dialogue that is gone when it is closed, or when its page is left. Gives a function that closes it. */
export function dialogue(title, content) {
  const close = () => element.close();
  const element = h(
    "dialog",
    { class: "dialogue", "aria-label": title },
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
  openDialogue(element, () => {
    window.removeEventListener("hashchange", close);
    element.remove();
  });
  element.querySelector("form :is(input, select, textarea, [type=submit])")?.focus(); // not the ×
  return close;
}
