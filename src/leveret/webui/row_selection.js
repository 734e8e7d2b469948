// Selected rows of a table: a column of checkboxes, and one in the head for all rows that match the filter.

import { fill, h } from "./dom.js";
import { notifyError } from "./notices.js";

/** @typedef {import("./table.js").Row} Row */

export class RowSelection {
  /** @type {Map<string, Row>} */
  #rows = new Map();
  /** @type {Map<string, Row>} */
  #latest = new Map(); // as last loaded
  #keyOf;
  #nameOf;
  #loadAll;
  #round = 0; // changes with every selection of many rows, so that their checkboxes are drawn again

  /**
   * @param {object} options
   * @param {(row: Row) => string} options.keyOf
   * @param {(row: Row) => string} options.nameOf for screen readers
   * @param {() => Promise<Row[]>} options.loadAll the rows that match the filter
   * @param {(rows: Row[]) => void} options.whenChanged
   * @param {() => void} options.redraw
   */
  constructor({ keyOf, nameOf, loadAll, whenChanged, redraw }) {
    this.#keyOf = keyOf;
    this.#nameOf = nameOf;
    this.#loadAll = loadAll;
    this.whenChanged = whenChanged;
    this.redraw = redraw;
    this.all = h("input", {
      type: "checkbox",
      "aria-label": "Select all matching rows",
      onchange: () => (this.all.checked ? this.#chooseAll() : this.clear()),
    });
  }

  get rows() {
    return [...this.#rows.values()];
  }

  /** @returns {import("./table.js").Column} */
  get column() {
    return {
      title: "",
      width: "tick",
      head: () => this.all,
      value: (row) => [this.#keyOf(row), this.#nameOf(row), this.#round],
      show: ([key, name]) => this.#box(key, name),
    };
  }

  /**
   * A newer version of a row.
   * @param {Row} row
   */
  note(row) {
    this.#latest.set(this.#keyOf(row), row);
    if (this.#rows.has(this.#keyOf(row))) this.#rows.set(this.#keyOf(row), row);
  }

  clear() {
    this.#rows.clear();
    this.#redrawn();
  }

  /**
   * @param {string} key
   * @param {string} name
   */
  #box(key, name) {
    const box = h("input", { type: "checkbox", checked: this.#rows.has(key), "aria-label": `Select ${name}` });
    box.addEventListener("change", () => {
      const row = this.#latest.get(key);
      if (box.checked && row) this.#rows.set(key, row);
      else this.#rows.delete(key);
      this.#changed();
    });
    return box;
  }

  async #chooseAll() {
    const round = this.#round;
    try {
      const rows = await this.#loadAll();
      if (round !== this.#round) return; // the filter has changed meanwhile
      for (const row of rows) this.#rows.set(this.#keyOf(row), row);
    } catch (problem) {
      notifyError(problem);
    }
    this.#redrawn();
  }

  #redrawn() {
    this.#round += 1;
    this.redraw();
    this.#changed();
  }

  #changed() {
    this.all.checked = this.#rows.size > 0;
    this.whenChanged(this.rows);
  }
}

/**
 * Calls `act(row)` for each row, a few at a time. Returns the rows that failed, with their problems.
 * @param {Row[]} rows
 * @param {(row: Row) => Promise<unknown>} act
 */
export async function forEachRow(rows, act, atOnce = 6) {
  /** @type {{ row: Row, problem: import("./api.js").Problem }[]} */
  const failed = [];
  const waiting = [...rows];
  const work = async () => {
    for (let row = waiting.shift(); row; row = waiting.shift()) {
      const current = row;
      await act(current).catch((problem) => failed.push({ row: current, problem }));
    }
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  return failed;
}

/**
 * The bar above a table, hidden while nothing is selected.
 * @param {(rows: Row[], matching: number) => import("./dom.js").Child} content
 */
export function selectionBar(content) {
  const element = h("div", { class: "selection-bar", role: "status", hidden: true });
  /** @param {Row[]} rows */
  const show = (rows, matching = 0) => {
    element.hidden = !rows.length;
    fill(element, rows.length > 0 && content(rows, matching));
  };
  return { element, show };
}
