// The columns of a table that the user has shown or hidden, remembered by the browser. Other columns follow their rank.

import { h } from "./dom.js";
import { dialog } from "./forms.js";

const PREFIX = "leveret.columns.";

/** @typedef {import("./table.js").Column} Column */

export class ColumnChoice {
  #key;
  /** @type {Record<string, boolean>} */
  #isShown = {}; // by title
  #whenChanged;

  /**
   * @param {string} id names the table in the storage of the browser
   * @param {() => void} whenChanged
   */
  constructor(id, whenChanged) {
    this.#key = PREFIX + id;
    this.#whenChanged = whenChanged;
    try {
      this.#isShown = JSON.parse(localStorage.getItem(this.#key) ?? "{}");
    } catch {
      // storage is disabled: the default columns are shown
    }
  }

  get isEmpty() {
    return Object.keys(this.#isShown).length === 0;
  }

  /**
   * A class for the cells of the column; "" for the default.
   * @param {Column} column
   */
  classOf(column) {
    const isShown = this.#isShown[column.title];
    if (isShown === undefined) return "";
    return isShown ? "chosen" : "unchosen";
  }

  /**
   * A button that opens the list of columns.
   * @param {Column[]} columns
   * @param {HTMLElement[]} heads the heads of the columns
   */
  button(columns, heads) {
    const open = () => {
      const titles = columns.map((column) => column.title);
      const boxes = titles.map((title, at) =>
        this.#box(title, getComputedStyle(heads[at]).display !== "none", columns[at].width === "name"),
      );
      const close = dialog("Columns", [
        h("div", { class: "column-list" }, boxes),
        h("div", { class: "actions" }, h("button", { type: "button", onclick: () => reset() }, "Default columns")),
      ]);
      const reset = () => {
        this.#change({});
        close();
      };
    };
    return h("button", { type: "button", class: "columns", onclick: open }, "Columns …");
  }

  /**
   * @param {string} title
   * @param {boolean} isShown
   * @param {boolean} isFixed the name cannot be hidden
   */
  #box(title, isShown, isFixed) {
    if (!title) return null;
    const box = h("input", { type: "checkbox", checked: isShown, disabled: isFixed });
    box.addEventListener("change", () => this.#change({ ...this.#isShown, [title]: box.checked }));
    return h("label", { class: "check" }, box, title);
  }

  /** @param {Record<string, boolean>} isShown */
  #change(isShown) {
    this.#isShown = isShown;
    try {
      localStorage.setItem(this.#key, JSON.stringify(isShown));
    } catch {
      // storage is disabled: the choice lasts until the page is left
    }
    this.#whenChanged();
  }
}
