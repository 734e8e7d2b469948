// A table of any length. Only the rows that can be seen are in the document, and only the pages around them are asked
// for; sorting and filtering are the source's work. `source({page, page_size, sort, sort_reverse, name}, signal)` gives
// {items, filtered_count, total_count}: the API's own shape, or `rowsSource` for rows that are all here.
//
// A column is {title, value(row), show?(value), sort?, align?, rank?, width?}. A cell is touched only when its value has
// changed, so focus and selection survive a refresh. `show` is not given the row: what it needs stands in the value, or
// the cell would go on telling of the row that was there before. Rank 4, then 3, then 2 give way where the table is narrow.
//
// In the same way `empty(reason)` tells what to do while there is no row, and is asked again only when `emptiness()` gives
// another reason.
//
// With `isKept`, filter and order stand in the address: they are there again after Back, and in a link that is sent on.
// `toolsFrom`: the number of rows from which on there is a filter.

import { fillFor, h } from "./dom.js";
import { live } from "./live.js";
import { number, plural } from "./format.js";
import { keepState, keptState } from "./list_state.js";
import { showProblem } from "./notices.js";

const ROW = 36; // pixels, as in app.css
const PAGE = 100;
const MARGIN = 8; // rows above and below what is seen
const TYPING = 250;

export class Table {
  #columns;
  #source;
  #signal;
  #rows = new Map(); // by their number
  #total = 0;
  #filtered = -1; // not known yet
  #sort;
  #reverse;
  #name = "";
  #generation = 0; // answers to an older question are dropped
  #lines = [];
  #refresh = () => {};

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
    onCount,
    isKept = false,
    toolsFrom = 1,
  }) {
    this.#columns = columns;
    this.#source = source;
    this.#signal = signal;
    this.#sort = sort;
    this.#reverse = reverse;
    this.noun = noun;
    this.nouns = nouns;
    this.empty = empty;
    this.emptiness = emptiness;
    this.onCount = onCount;
    this.isKept = isKept;
    this.toolsFrom = toolsFrom;
    if (isKept) this.#recall();
    this.#build();
    this.#refresh = live(
      signal,
      () => this.#load(),
      (problem) => this.#fail(problem),
    );
  }

  /** Asks again now. */
  refresh() {
    this.#refresh();
  }

  /** Another question: from the top. */
  restart() {
    this.#generation += 1;
    this.#rows.clear();
    this.scroller.scrollTop = 0;
    this.#refresh();
  }

  #build() {
    this.search = h("input", {
      type: "search",
      value: this.#name,
      placeholder: "Filter by name",
      "aria-label": `Filter ${this.nouns} by name`,
      oninput: () => this.#typed(),
    });
    this.count = h("span", { class: "faint count", role: "status" });
    this.tools = h("div", { class: "table-tools", hidden: this.toolsFrom > 1 }, this.search, this.count);
    this.heads = this.#columns.map((column) => this.#head(column));
    this.above = h("tbody", { "aria-hidden": "true" }, h("tr", { class: "spacer" }, h("td")));
    this.body = h("tbody", { class: "rows" });
    this.below = h("tbody", { "aria-hidden": "true" }, h("tr", { class: "spacer" }, h("td")));
    this.table = h("table", {}, h("thead", {}, h("tr", {}, this.heads)), this.above, this.body, this.below);
    this.scroller = h(
      "div",
      { class: "table-scroll", tabindex: "0", role: "region", "aria-label": this.nouns },
      this.table,
    );
    this.place = h("div", { class: "table-place" }, h("p", { class: "empty late" }, "Loading …"));
    this.element = h("div", { class: "table card" }, this.tools, this.scroller, this.place);
    this.scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    const growing = new ResizeObserver(() => this.#draw()); // an empty table is lower than a full one, and windows change
    growing.observe(this.scroller);
    this.#signal.addEventListener("abort", () => growing.disconnect());
    this.#markSort();
  }

  #head(column) {
    const classes = classesOf(column);
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

  #sortBy(column) {
    this.#reverse = this.#sort === column.sort ? !this.#reverse : column.align === "right";
    this.#sort = column.sort;
    this.#markSort();
    this.#remember();
    this.restart();
  }

  #recall() {
    this.#name = keptState("name") ?? "";
    const sort = keptState("sort");
    if (!this.#columns.some((column) => column.sort && column.sort === sort)) return;
    this.#sort = sort;
    this.#reverse = keptState("down") === "yes";
  }

  #remember() {
    if (this.isKept) keepState({ name: this.#name, sort: this.#sort, down: this.#reverse ? "yes" : "" });
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
      if (this.#signal.aborted) return; // the address is another page's by now
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
    this.#say();
  }

  async #asked(page) {
    const question = {
      page,
      page_size: PAGE,
      sort: this.#sort || undefined,
      sort_reverse: this.#reverse,
      name: this.#name || undefined,
    };
    try {
      return await this.#source(question, this.#signal);
    } catch (problem) {
      if (page === 1 || problem.status !== 400) throw problem;
      this.scroller.scrollTop = 0; // there are fewer rows than there were
      return await this.#source({ ...question, page: 1 }, this.#signal);
    }
  }

  #keep(page, answer) {
    const start = ((answer.page ?? page + 1) - 1) * PAGE;
    this.#total = answer.total_count;
    this.#filtered = answer.filtered_count;
    answer.items.forEach((row, at) => this.#rows.set(start + at, row));
    for (const at of this.#rows.keys()) {
      if (at >= this.#filtered) this.#rows.delete(at);
    }
  }

  #forgetFar(first, last) {
    for (const at of this.#rows.keys()) {
      if (at < (first - 2) * PAGE || at >= (last + 2) * PAGE) this.#rows.delete(at);
    }
  }

  #draw() {
    const [from, to] = this.#seen();
    this.above.firstChild.style.height = `${from * ROW}px`;
    this.below.firstChild.style.height = `${(Math.max(this.#filtered, 0) - to) * ROW}px`;
    while (this.#lines.length > to - from) this.#lines.pop().element.remove();
    while (this.#lines.length < to - from) {
      const line = new Line(this.#columns);
      this.#lines.push(line);
      this.body.append(line.element);
    }
    this.#lines.forEach((line, at) => line.show(this.#rows.get(from + at), from + at));
    this.table.setAttribute("aria-rowcount", Math.max(this.#filtered, 0) + 1);
  }

  #say() {
    const all = plural(this.#total, this.noun, this.nouns);
    this.count.textContent = this.#filtered === this.#total ? all : `${number(this.#filtered)} of ${all}`;
    this.onCount?.(this.#total);
    this.scroller.hidden = this.#filtered === 0;
    const isNarrowed = this.#name || (this.isKept && keptState("vhost")); // then there must be a way back
    this.tools.hidden = this.#total < this.toolsFrom && !isNarrowed;
    if (this.#total === 0 && this.empty) this.#tellEmpty(this.emptiness());
    else if (this.#filtered === 0) this.#tellUnfit(this.#name);
    else fillFor(this.place, "full", () => null);
  }

  #tellEmpty(reason) {
    fillFor(this.place, ["empty", reason], () => this.empty(reason));
  }

  #tellUnfit(name) {
    const text = name ? `No ${this.nouns} match “${name}”.` : `No ${this.nouns} match the filter.`;
    fillFor(this.place, ["unfit", text], () => h("p", { class: "empty" }, text));
  }

  #fail(problem) {
    showProblem(this.place, problem);
  }
}

/** One row of the document, which shows one row of the data after another. */
class Line {
  constructor(columns) {
    this.columns = columns;
    this.cells = columns.map((column) => h("td", { class: classesOf(column) }));
    this.element = h("tr", {}, this.cells);
  }

  show(row, number) {
    this.element.setAttribute("aria-rowindex", number + 2);
    this.element.classList.toggle("pending", row === undefined);
    for (const [at, column] of this.columns.entries()) {
      if (row === undefined)
        fillFor(this.cells[at], [], () => null); // nothing is known of it yet
      else showIn(this.cells[at], column, column.value(row));
    }
  }
}

function showIn(cell, column, value) {
  fillFor(cell, [value], () => {
    cell.title = typeof value === "string" ? value : "";
    return column.show ? column.show(value) : value;
  });
}

function classesOf(column) {
  return [
    column.align === "right" ? "right" : "",
    column.rank ? `rank-${column.rank}` : "",
    column.width ? `w-${column.width}` : "",
  ]
    .filter(Boolean)
    .join(" ");
}

/** A source of rows that are all here: `load(signal)` gives them. `text(row)` is what the filter looks at. */
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

function at(row, path) {
  return path.split(".").reduce((value, part) => value?.[part], row);
}

function compared(a, b) {
  if (a === b) return 0;
  if (a === undefined || a === null) return -1;
  if (b === undefined || b === null) return 1;
  return a < b ? -1 : 1;
}
