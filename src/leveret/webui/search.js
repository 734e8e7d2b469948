// Ctrl-K search over all pages, objects and actions. A page can export `find(text, signal)`: [{title, hint, address}].

import { ApiError } from "./api.js";
import { fill, h } from "./dom.js";
import { distance } from "./fuzzy.js";
import { openDialog } from "./notices.js";
import { go } from "./router.js";

/**
 * @typedef {import("./router.js").Page} Page
 *
 * `act` is called, or the page at `address` is opened.
 * @typedef {{ title: string, hint: string, address?: string, act?: () => void }} Found
 */

const TYPING = 150;

/**
 * Exact matches first, then prefixes, then the rest; stable within each group.
 * @param {Found[]} found
 * @param {string} text
 */
function nearestFirst(found, text) {
  const far = (/** @type {Found} */ { title }) => distance(title, text) ?? Infinity;
  return found.toSorted((one, other) => far(one) - far(other) || 0);
}

export class Search {
  #pages;
  #actions;
  /** @type {Found[]} */
  #found = [];
  #chosen = 0;
  #isTyped = false; // typed text that was not searched for yet
  #looking = Promise.resolve(true);
  #asking = new AbortController();

  /**
   * @param {Page[]} pages
   * @param {Found[]} actions
   */
  constructor(pages, actions) {
    this.#pages = pages;
    this.#actions = actions;
    this.input = h("input", {
      type: "search",
      placeholder: "Go to a page, queue, exchange, … or type an action",
      "aria-label": "Search",
      role: "combobox",
      "aria-expanded": "true",
      "aria-controls": "found",
      autocomplete: "off",
      spellcheck: "false",
    });
    this.list = h("ul", { id: "found", role: "listbox" });
    this.element = h(
      "dialog",
      { class: "search", "aria-label": "Search" },
      this.input,
      this.list,
      h("p", { class: "faint keys" }, "↑ ↓ to select, Enter to open, Esc to close"),
    );
    this.input.addEventListener("input", () => this.#typed());
    this.element.addEventListener("keydown", (event) => this.#pressed(event));
    this.element.addEventListener("click", (event) => event.target === this.element && this.element.close());
  }

  open() {
    if (this.element.open) return;
    this.input.value = "";
    this.#chosen = 0;
    openDialog(this.element, () => this.#cancel());
    this.input.focus();
    this.#look();
  }

  #cancel() {
    clearTimeout(this.typing);
    this.#isTyped = false;
    this.#asking.abort();
  }

  #typed() {
    this.#cancel(); // pending responses belong to the previous text
    this.#isTyped = true;
    this.#chosen = 0;
    this.#mark();
    this.typing = setTimeout(() => this.#look(), TYPING);
  }

  /** Resolves to whether the search completed without further typing. */
  #look() {
    this.#looking = this.#lookAround();
    return this.#looking;
  }

  async #lookAround() {
    this.#cancel();
    this.#asking = new AbortController();
    const { signal } = this.#asking;
    const text = this.input.value.trim();
    const pages = this.#pages.flatMap(({ nav, path }) => (nav ? [{ title: nav, hint: "page", address: path }] : []));
    const known = [...pages, ...this.#actions].filter(({ title }) => distance(title, text) !== null);
    this.#show(text ? nearestFirst(known, text) : pages);
    if (!text) return true;
    await Promise.all(this.#pages.map((page) => this.#ask(page, text, signal)));
    if (!signal.aborted && !this.#found.length)
      fill(this.list, h("li", { class: "faint" }, `No results for “${text}”.`));
    return !signal.aborted;
  }

  /**
   * @param {Page} page
   * @param {string} text
   * @param {AbortSignal} signal
   */
  async #ask(page, text, signal) {
    try {
      const found = (await page.find?.(text, signal)) ?? [];
      if (!signal.aborted) this.#show(nearestFirst([...this.#found, ...found], text));
    } catch (problem) {
      if (!(problem instanceof ApiError) && problem.name !== "AbortError") throw problem;
    }
  }

  /** @param {Found[]} found */
  #show(found) {
    this.#found = found;
    this.#chosen = Math.min(this.#chosen, Math.max(found.length - 1, 0));
    if (found.length === 0) this.#chosen = 0;
    fill(
      this.list,
      found.map((one, at) =>
        h(
          "li",
          {
            id: `found-${at}`,
            role: "option",
            "aria-selected": String(at === this.#chosen),
            onclick: () => this.#go(one),
          },
          h("span", {}, one.title),
          h("small", { class: "faint" }, one.hint),
        ),
      ),
    );
    this.#mark();
  }

  #mark() {
    for (const [at, item] of [...this.list.children].entries())
      item.setAttribute("aria-selected", String(at === this.#chosen));
    this.list.children[this.#chosen]?.scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", `found-${this.#chosen}`);
  }

  /** @param {KeyboardEvent} event */
  #pressed(event) {
    if (event.target !== this.input && event.key !== "Escape") return; // notices have their own buttons
    if (event.key === "ArrowDown") this.#chosen = Math.min(this.#chosen + 1, Math.max(this.#found.length - 1, 0));
    else if (event.key === "ArrowUp") this.#chosen = Math.max(this.#chosen - 1, 0);
    else if (event.key === "Enter") this.#enter();
    else if (event.key === "Escape")
      this.element.close(); // by default Escape only clears a search field
    else return;
    event.preventDefault();
    this.#mark();
  }

  /** Opens the selected result, after the search for the latest text has completed. */
  async #enter() {
    const isReady = this.#isTyped ? await this.#look() : this.#found.length > 0 || (await this.#looking);
    if (isReady && this.#found[this.#chosen]) this.#go(this.#found[this.#chosen]);
  }

  /** @param {Found} found */
  #go(found) {
    this.element.close();
    if (found.act) found.act();
    else go(found.address ?? "/");
  }
}
