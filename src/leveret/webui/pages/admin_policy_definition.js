// The definition of a policy as rows of keys and values, with the keys that the broker supports.

import { h } from "../dom.js";
import { editableValue, typedValue } from "./admin_policy_values.js";

/** `value()` returns the definition for the API. */
export function definitionRows(definition, keys) {
  const list = h(
    "datalist",
    { id: "policy-keys" },
    keys.map((key) =>
      h("option", { value: key.name, label: key.is_limit ? `a limit on ${key.about}` : `for ${key.about}` }),
    ),
  );
  const rows = h("div", { class: "definition-rows" });
  const add = (key = "", value = "") => {
    const row = new Row(key, value, () => row.element.remove());
    rows.append(row.element);
    return row;
  };
  const given = Object.entries(definition);
  for (const [key, value] of given) add(key, editableValue(value, keyOf(keys, key)));
  if (!given.length) add();
  const more = h("button", { type: "button", onclick: () => add().key.focus() }, "Add key");
  return {
    element: h("fieldset", { class: "definition" }, h("legend", {}, "Definition"), list, rows, more),
    value: () => definitionOf(rows, keys),
  };
}

class Row {
  constructor(key, value, drop) {
    this.key = h("input", {
      class: "mono",
      value: key,
      list: "policy-keys",
      placeholder: "max-length",
      "aria-label": "Key",
      autocomplete: "off",
      spellcheck: "false",
    });
    this.value = h("input", {
      class: "mono",
      value,
      placeholder: "100000",
      "aria-label": "Value",
      autocomplete: "off",
      spellcheck: "false",
    });
    this.element = h(
      "div",
      { class: "definition-row" },
      this.key,
      this.value,
      h("button", { type: "button", class: "quiet", "aria-label": "Remove this key", onclick: drop }, "×"),
    );
  }
}

function definitionOf(rows, keys) {
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

function keyOf(keys, name) {
  return keys.find((one) => one.name === name);
}
