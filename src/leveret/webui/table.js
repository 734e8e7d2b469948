// A table of any length. Only visible rows are in the document, and only the API pages around them are requested. The
// source sorts and filters; it returns the API's own page format (see Page), or is a `rowsSource` over loaded rows.
//
// A cell is updated only if its value has changed, so that focus and selection survive a refresh. Therefore `show`
// receives the value and not the row. Columns of rank 4, then 3, then 2 are hidden if the table is narrow;
// those of rank 5 are shown if the user chooses them.
// In the same way `empty(reason)` is called again only if `emptiness()` returns another reason.

import { ColumnChoice } from "./column_choice.js";
import { fillFor, h } from "./dom.js";
import { number, plural } from "./format.js";
import { nameText } from "./layout.js";
import { keepState, keptState } from "./list_state.js";
import { showProblem } from "./notices.js";
import { poll } from "./poll.js";

const ROW = 36; // row height in pixels, as in app.css
const PAGE = 100;
const MARGIN = 8; // rows above and below the visible ones
const TYPING = 250;
const BY_CHOICE = 5; // rank of columns that are shown by choice only

/**
 * @typedef {Record<string, any>} Row a row of the API
 * @typedef {{ page: number, page_size: number, sort?: string, sort_reverse?: boolean, name?: string,
 *   use_regex?: boolean }} Question
 * @typedef {{ items: Row[], filtered_count: number, total_count: number, page?: number }} Page
 * @typedef {(question: Question, signal: AbortSignal) => Promise<Page>} Source
 *
 * @typedef {object} Column
 * @property {string} title
 * @property {(row: any) => any} value
 * @property {(value: any) => import("./dom.js").Child} [show] shows the value; by default as text (nameText)
 * @property {string} [sort] the field to sort by
 * @property {string} [align] "right" for numbers
 * @property {number} [rank]
 * @property {string} [width] a class of app.css without "w-"
 * @property {() => HTMLElement} [head] instead of the title
 *
 * @typedef {object} TableOptions
 * @property {Column[]} columns
 * @property {Source} source
 * @property {AbortSignal} signal
 * @property {string} [sort]
 * @property {boolean} [reverse]
 * @property {string} [noun]
 * @property {string} [nouns]
 * @property {string | ((reason: any) => import("./dom.js").Child)} [empty] shown instead of an empty table
 * @property {() => unknown} [emptiness]
 * @property {boolean} [isKept] keeps filter and order in the URL
 * @property {number} [toolsFrom] number of rows from which the filter is shown
 * @property {string} [id] lets the user choose the columns, which the browser remembers by this name
 * @property {boolean} [canRegex] the source accepts regular expressions
 */

export class Table {
  #columns;
  #source;
  #signal;
  /** @type {Map<number, Row>} */
  #rows = new Map(); // by row number
  #total = 0;
  #filtered = -1; // -1 before the first response
  #sort;
  #reverse;
  #name = "";
  #generation = 0; // responses to older questions are discarded
  /** @type {Line[]} */
  #lines = [];
  #refresh = () => {};
  /** @type {ColumnChoice | null} */
  #choice = null;
  #isRegex = false;
  whenFiltered = () => {};

  /** @param {TableOptions} options */
  constructor({
    columns,
    source,
    signal,
    sort = "",
    reverse = false,
    noun = "row",
    nouns = `${noun}s`,
    empty,
    emptiness = () => "",
    isKept = false,
    toolsFrom = 1,
    id = "",
    canRegex = false,
  }) {
    this.#columns = id ? columns : columns.filter((column) => column.rank !== BY_CHOICE);
    this.#source = source;
    this.#signal = signal;
    this.#sort = sort;
    this.#reverse = reverse;
    this.noun = noun;
    this.nouns = nouns;
    this.empty = empty;
    this.emptiness = emptiness;
    this.isKept = isKept;
    this.toolsFrom = toolsFrom;
    if (isKept) this.#recall();
    this.search = h("input", {
      type: "search",
      value: this.#name,
      placeholder: "Filter by name",
      "aria-label": `Filter ${this.nouns} by name`,
      oninput: () => this.#typed(),
    });
    this.count = h("span", { class: "faint count", role: "status" });
    this.tools = h("div", { class: "table-tools", hidden: this.toolsFrom > 1 }, this.search, this.count);
    this.regex = this.#regexButton();
    if (canRegex) this.search.after(this.regex);
    this.heads = this.#columns.map((column) => this.#head(column));
    if (id) this.#chooseColumns(id);
    this.above = h("tr", { class: "spacer" }, h("td"));
    this.body = h("tbody", { class: "rows" });
    this.below = h("tr", { class: "spacer" }, h("td"));
    this.table = h(
      "table",
      {},
      h("thead", {}, h("tr", {}, this.heads)),
      spacer(this.above),
      this.body,
      spacer(this.below),
    );
    this.scroller = h(
      "div",
      { class: "table-scroll", tabindex: "0", role: "region", "aria-label": this.nouns },
      this.table,
    );
    this.place = h("div", { class: "table-place" }, h("p", { class: "empty late" }, "Loading …"));
    this.element = h("div", { class: "table card" }, this.tools, this.scroller, this.place);
    this.scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    const growing = new ResizeObserver(() => this.#draw());
    growing.observe(this.scroller);
    this.#signal.addEventListener("abort", () => growing.disconnect());
    this.#styleColumns();
    this.#markSort();
    this.#refresh = poll(
      signal,
      () => this.#load(),
      (problem) => this.#fail(problem),
    );
  }

  /** Polls immediately. */
  refresh() {
    this.#refresh();
  }

  /** Reloads from the first row, after the filter has changed. */
  restart() {
    this.whenFiltered();
    this.#reload();
  }

  #reload() {
    this.#generation += 1;
    this.#rows.clear();
    this.scroller.scrollTop = 0;
    this.#refresh();
  }

  /** Draws the rows again, after a change that is not in the data. */
  redraw() {
    this.#draw();
  }

  /** The question as it is now, for rows that are not loaded. */
  get question() {
    return { sort: this.#sort || undefined, sort_reverse: this.#reverse, ...this.#filter };
  }

  get #filter() {
    return { name: this.#name || undefined, use_regex: (this.#isRegex && Boolean(this.#name)) || undefined };
  }

  /** @param {string} id */
  #chooseColumns(id) {
    this.#choice = new ColumnChoice(id, () => this.#styleColumns());
    this.tools.append(this.#choice.button(this.#columns, this.heads));
  }

  /** Applies the columns that the user has chosen. A table with many columns scrolls. */
  #styleColumns() {
    if (!this.#choice) return;
    for (const [at, column] of this.#columns.entries()) {
      const kind = this.#choice.classOf(column);
      for (const cell of [this.heads[at], ...this.#lines.map((line) => line.cells[at])]) {
        cell.classList.toggle("chosen", kind === "chosen");
        cell.classList.toggle("unchosen", kind === "unchosen");
      }
    }
    const shown = this.heads.filter((head) => head.matches(".chosen, :not([class*=rank-], .unchosen)"));
    this.table.style.minWidth = this.#choice.isEmpty ? "" : `${shown.length * 100 + 80}px`;
  }

  #regexButton() {
    const button = h(
      "button",
      {
        type: "button",
        class: "regex mono",
        "aria-label": "Regular expression",
        "aria-pressed": String(this.#isRegex),
        title: "Filter by a regular expression",
      },
      ".*",
    );
    button.addEventListener("click", () => {
      this.#isRegex = !this.#isRegex;
      button.setAttribute("aria-pressed", String(this.#isRegex));
      this.#remember();
      if (this.#name) this.restart();
    });
    return button;
  }

  /** @param {Column} column */
  #head(column) {
    const classes = classesOf(column);
    if (column.head) return h("th", { class: classes, scope: "col" }, column.head());
    if (!column.sort) return h("th", { class: classes, scope: "col" }, column.title);
    return h(
      "th",
      { class: classes, scope: "col" },
      h(
        "button",
        { type: "button", title: `Sort by ${column.title.toLowerCase()}`, onclick: () => this.#sortBy(column) },
        column.title,
      ),
    );
  }

  /** @param {Column} column */
  #sortBy(column) {
    this.#reverse = this.#sort === column.sort ? !this.#reverse : column.align === "right";
    this.#sort = column.sort ?? "";
    this.#markSort();
    this.#remember();
    this.#reload();
  }

  #recall() {
    this.#name = keptState("name") ?? "";
    this.#isRegex = keptState("regex") === "yes";
    const sort = keptState("sort");
    if (!this.#columns.some((column) => column.sort && column.sort === sort)) return;
    this.#sort = sort ?? "";
    this.#reverse = keptState("down") === "yes";
  }

  #remember() {
    if (!this.isKept) return;
    const [regex, down] = [this.#isRegex ? "yes" : "", this.#reverse ? "yes" : ""];
    keepState({ name: this.#name, regex, sort: this.#sort, down });
  }

  #markSort() {
    for (const [at, column] of this.#columns.entries()) {
      if (!column.sort) continue;
      const isOurs = column.sort === this.#sort;
      this.heads[at].setAttribute("aria-sort", isOurs ? (this.#reverse ? "descending" : "ascending") : "none");
    }
  }

  #typed() {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => {
      if (this.#signal.aborted) return; // the URL belongs to another page by now
      this.#name = this.search.value.trim();
      this.#remember();
      this.restart();
    }, TYPING);
  }

  #scrolled() {
    this.#draw();
    const [from, to] = this.#seen();
    for (let at = from; at < to; at += 1) {
      if (!this.#rows.has(at)) return void this.#refresh();
    }
  }

  #seen() {
    const height = this.scroller.clientHeight || window.innerHeight;
    const from = Math.max(Math.floor(this.scroller.scrollTop / ROW) - MARGIN, 0);
    const to = Math.min(from + Math.ceil(height / ROW) + 2 * MARGIN, Math.max(this.#filtered, 0));
    return [Math.min(from, to), to];
  }

  async #load() {
    const generation = this.#generation;
    const [from, to] = this.#seen();
    const first = Math.floor(from / PAGE);
    const last = Math.max(Math.ceil(to / PAGE), first + 1);
    for (let page = first; page < last; page += 1) {
      const answer = await this.#asked(page + 1);
      if (this.#signal.aborted || generation !== this.#generation) return;
      this.#keep(page, answer);
    }
    this.#forgetFar(first, last);
    this.#draw();
    this.#showCount();
  }

  /**
   * @param {number} page
   * @returns {Promise<Page>}
   */
  async #asked(page) {
    const question = { page, page_size: PAGE, ...this.question };
    try {
      return await this.#source(question, this.#signal);
    } catch (problem) {
      if (page === 1 || problem.status !== 400) throw problem;
      this.scroller.scrollTop = 0; // the list has become shorter
      return await this.#source({ ...question, page: 1 }, this.#signal);
    }
  }

  /**
   * @param {number} page
   * @param {Page} answer
   */
  #keep(page, answer) {
    const start = ((answer.page ?? page + 1) - 1) * PAGE;
    this.#total = answer.total_count;
    this.#filtered = answer.filtered_count;
    for (const [at, row] of answer.items.entries()) this.#rows.set(start + at, row);
    for (const at of this.#rows.keys()) {
      if (at >= this.#filtered) this.#rows.delete(at);
    }
  }

  /**
   * @param {number} first
   * @param {number} last
   */
  #forgetFar(first, last) {
    for (const at of this.#rows.keys()) {
      if (at < (first - 2) * PAGE || at >= (last + 2) * PAGE) this.#rows.delete(at);
    }
  }

  #draw() {
    const [from, to] = this.#seen();
    this.above.style.height = `${from * ROW}px`;
    this.below.style.height = `${(Math.max(this.#filtered, 0) - to) * ROW}px`;
    while (this.#lines.length > to - from) this.#lines.pop()?.element.remove();
    const before = this.#lines.length;
    while (this.#lines.length < to - from) {
      const line = new Line(this.#columns);
      this.#lines.push(line);
      this.body.append(line.element);
    }
    if (this.#lines.length > before) this.#styleColumns();
    for (const [at, line] of this.#lines.entries()) line.show(this.#rows.get(from + at), from + at);
    this.table.setAttribute("aria-rowcount", String(Math.max(this.#filtered, 0) + 1));
  }

  #showCount() {
    const all = plural(this.#total, this.noun, this.nouns);
    this.count.textContent = this.#filtered === this.#total ? all : `${number(this.#filtered)} of ${all}`;
    this.scroller.hidden = this.#filtered === 0;
    const isNarrowed = this.#name || (this.isKept && keptState("vhost")); // the user must be able to remove the filter
    this.tools.hidden = this.#total < this.toolsFrom && !isNarrowed;
    if (this.#total === 0 && this.empty) this.#showEmpty(this.emptiness());
    else if (this.#filtered === 0) this.#showUnmatched(this.#name);
    else fillFor(this.place, "full", () => null);
  }

  /** @param {unknown} reason */
  #showEmpty(reason) {
    fillFor(this.place, ["empty", reason], () => {
      const shown = typeof this.empty === "function" ? this.empty(reason) : this.empty;
      return typeof shown === "string" ? h("p", { class: "empty" }, shown) : shown;
    });
  }

  /** @param {string} name */
  #showUnmatched(name) {
    const text = name ? `No ${this.nouns} match “${name}”.` : `No ${this.nouns} match the filter.`;
    fillFor(this.place, ["unfit", text], () => h("p", { class: "empty" }, text));
  }

  /** @param {import("./api.js").Problem} problem */
  #fail(problem) {
    showProblem(this.place, problem);
  }
}

/** @param {HTMLElement} row */
const spacer = (row) => h("tbody", { "aria-hidden": "true" }, row);

/**
 * A right-aligned column, sorted by a field such as "message_stats.publish_details.rate", which is also its value.
 * @param {string} title
 * @param {string} field
 * @param {(value: any) => import("./dom.js").Child} show
 * @param {{ rank?: number, width?: string, value?: (row: any) => any }} [options]
 * @returns {Column}
 */
export function numeric(title, field, show, { rank, width = "s", value = (row) => at(row, field) } = {}) {
  return { title, sort: field, align: "right", rank, width, value, show };
}

/** A table row of the document, reused for different rows of data. */
class Line {
  /** @param {Column[]} columns */
  constructor(columns) {
    this.columns = columns;
    this.cells = columns.map((column) => h("td", { class: classesOf(column) }));
    this.element = h("tr", {}, this.cells);
  }

  /**
   * @param {Row | undefined} row
   * @param {number} number
   */
  show(row, number) {
    this.element.setAttribute("aria-rowindex", String(number + 2));
    this.element.classList.toggle("pending", row === undefined);
    for (const [at, column] of this.columns.entries()) {
      if (row === undefined)
        fillFor(this.cells[at], [], () => null); // not loaded yet
      else showIn(this.cells[at], column, column.value(row));
    }
  }
}

/**
 * @param {HTMLElement} cell
 * @param {Column} column
 * @param {any} value
 */
function showIn(cell, column, value) {
  fillFor(cell, [value], () => {
    cell.title = typeof value === "string" ? value : "";
    if (column.show) return column.show(value);
    return typeof value === "string" ? nameText(value) : value;
  });
}

/** @param {Column} column */
function classesOf(column) {
  return [
    column.align === "right" ? "right" : "",
    column.rank ? `rank-${column.rank}` : "",
    column.width ? `w-${column.width}` : "",
  ]
    .filter(Boolean)
    .join(" ");
}

/**
 * A source over the rows that `load(signal)` returns. The filter searches `text(row)`.
 * @param {(signal: AbortSignal) => Promise<Row[]>} load
 * @param {(row: any) => string} text
 * @returns {Source}
 */
export function rowsSource(load, text = (row) => row.name ?? "") {
  return async ({ page, page_size, sort, sort_reverse, name }, signal) => {
    const all = await load(signal);
    const wanted = (name ?? "").toLowerCase();
    const rows = all.filter((row) => !wanted || text(row).toLowerCase().includes(wanted));
    if (sort) rows.sort((a, b) => compared(at(a, sort), at(b, sort)) * (sort_reverse ? -1 : 1));
    const start = (page - 1) * page_size;
    return { items: rows.slice(start, start + page_size), filtered_count: rows.length, total_count: all.length, page };
  };
}

/**
 * @param {Row} row
 * @param {string} path
 * @returns {any}
 */
function at(row, path) {
  return path.split(".").reduce((value, part) => value?.[part], row);
}

/**
 * @param {any} a
 * @param {any} b
 */
function compared(a, b) {
  if (a === b) return 0;
  if (a === undefined || a === null) return -1;
  if (b === undefined || b === null) return 1;
  return a < b ? -1 : 1;
}
