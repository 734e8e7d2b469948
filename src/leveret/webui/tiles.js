// The key numbers at the top of a page.

import { h, setText } from "./dom.js";
import { NONE } from "./format.js";

export class Tiles {
  /** @type {Map<string, HTMLElement>} */
  #values = new Map();

  /** @param {...string} labels shown with a dash until they have a value; other labels are added as they are shown */
  constructor(...labels) {
    this.element = h("div", { class: "tiles" });
    for (const label of labels) this.show({ [label]: NONE });
  }

  /** @param {Record<string, string>} texts by label */
  show(texts) {
    for (const [label, text] of Object.entries(texts)) {
      const value = this.#values.get(label) ?? this.#added(label);
      setText(value, text);
      value.title = text; // it may be cut off
    }
  }

  /** @param {string} label */
  #added(label) {
    const value = h("b", {});
    this.#values.set(label, value);
    this.element.append(h("div", { class: "tile" }, h("span", {}, label), value));
    return value;
  }
}
