// A table of keys and values as rows of a form, such as arguments. Known keys are offered as buttons, with their
// meaning.

import { h, setText } from "./dom.js";

/**
 * @typedef {{ name: string, meaning: string, takes_text?: boolean, example?: string }} Key
 * @typedef {Record<string, any>} Definition
 */

let number = 0;

/**
 * `value()` returns the definition for the API.
 * @param {Definition} definition
 * @param {Key[]} keys
 * @param {{ legend: string, id?: string }} options
 */
export function definitionRows(definition, keys, { legend, id = `definition-keys-${++number}` }) {
  const list = h(
    "datalist",
    { id },
    keys.map((key) => h("option", { value: key.name, label: key.meaning })),
  );
  const rows = h("div", { class: "definition-rows" });
  const meaning = h("p", { class: "faint meaning", role: "status" });
  /** @param {string} name */
  const explain = (name) => setText(meaning, meaningOf(keys, name));
  const add = (key = "", value = "") => {
    const row = new DefinitionRow(id, key, value, explain);
    rows.append(row.element);
    return row;
  };
  for (const [key, value] of Object.entries(definition)) add(key, editableValue(value, keyOf(keys, key)));
  if (!rows.hasChildNodes()) add();
  const more = h("button", { type: "button", onclick: () => add().key.focus() }, "Add key");
  /** @param {Key} key */
  const offer = (key) => {
    const empty = [...rows.children].find((row) => [...row.querySelectorAll("input")].every((one) => !one.value));
    empty?.remove();
    add(key.name, key.example).value.focus();
    explain(key.name);
  };
  return {
    element: h(
      "fieldset",
      { class: "definition" },
      h("legend", {}, legend),
      list,
      rows,
      meaning,
      more,
      offered(keys, offer),
    ),
    value: () => definitionOf(rows, keys),
  };
}

/**
 * @param {Key[]} keys
 * @param {(key: Key) => void} offer
 */
function offered(keys, offer) {
  return h(
    "details",
    { class: "known-keys" },
    h("summary", {}, "Known keys"),
    keys.map((key) =>
      h("button", { type: "button", class: "small mono", title: key.meaning, onclick: () => offer(key) }, key.name),
    ),
  );
}

class DefinitionRow {
  /**
   * @param {string} list
   * @param {string} key
   * @param {string} value
   * @param {(name: string) => void} explain
   */
  constructor(list, key, value, explain) {
    const common = { class: "mono", autocomplete: "off", spellcheck: "false" };
    this.key = h("input", { ...common, value: key, list, placeholder: "max-length", "aria-label": "Key" });
    this.value = h("input", { ...common, value, placeholder: "100000", "aria-label": "Value" });
    for (const input of [this.key, this.value]) {
      input.addEventListener("focus", () => explain(this.key.value.trim()));
      input.addEventListener("input", () => explain(this.key.value.trim()));
    }
    const drop = () => this.element.remove();
    this.element = h(
      "div",
      { class: "definition-row" },
      this.key,
      this.value,
      h("button", { type: "button", class: "quiet", "aria-label": "Remove this key", onclick: drop }, "×"),
    );
  }
}

/**
 * @param {HTMLElement} rows
 * @param {Key[]} keys
 */
function definitionOf(rows, keys) {
  /** @type {Definition} */
  const found = {};
  for (const row of rows.children) {
    const [key, value] = [...row.querySelectorAll("input")].map((input) => input.value);
    const name = key.trim();
    if (!name && !value) continue;
    if (!name)
      throw { title: "Invalid definition", reason: `The value ${value} has no key: enter a key, or remove the row.` };
    if (name in found)
      throw { title: "Invalid definition", reason: `The key ${name} appears twice: remove one of the rows.` };
    found[name] = typedValue(value, keyOf(keys, name));
  }
  return found;
}

/**
 * @param {Key[]} keys
 * @param {string} name
 */
function keyOf(keys, name) {
  return keys.find((one) => one.name === name);
}

/**
 * @param {Key[]} keys
 * @param {string} name
 */
function meaningOf(keys, name) {
  const key = keyOf(keys, name);
  return key ? `${name}: ${key.meaning}` : "";
}

/** @param {unknown} value */
export function shownValue(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/**
 * The inverse of `typedValue`.
 * @param {unknown} value
 * @param {Key} [key]
 */
export function editableValue(value, key) {
  if (typeof value !== "string" || typedValue(value, key) === value) return shownValue(value);
  return JSON.stringify(value);
}

/**
 * Text for keys that take text; otherwise JSON, or text if it is not valid JSON.
 * @param {string} text
 * @param {Key} [key]
 */
export function typedValue(text, key) {
  if (key?.takes_text) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
