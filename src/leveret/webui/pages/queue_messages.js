// Browser for the messages of a queue, which can be selected. Browsing does not remove messages.

import { get, getBytes } from "../api.js";
import { fill, h } from "../dom.js";
import { plural } from "../format.js";
import { FILTERS, filterInput, filterOf } from "../message_filter.js";
import { problemBox } from "../notices.js";
import { bytesOf } from "../payload.js";
import { INTERVAL } from "../poll.js";
import { messageRow, opened } from "./message_content.js";

const FEW = 50;
const MOST = 1000;

/**
 * @typedef {object} MessageBrowserOptions
 * @property {import("../api.js").Query} [fixed] filters besides the typed ones
 * @property {((ids: string[]) => void) | null} [onChoice] shows checkboxes; called when the selection changes
 * @property {((message: any) => HTMLElement) | null} [trace] a link to the trace of the message
 * @property {string} [nothing] shown if there are no messages
 */

export class MessageBrowser {
  #address;
  #signal;
  #fixed;
  #onChoice;
  #trace;
  #asked = {}; // the filter of the list
  #limit = FEW;
  /** @type {Set<string>} */
  #chosen = new Set();

  /**
   * @param {string} address
   * @param {AbortSignal} signal
   * @param {MessageBrowserOptions} [options]
   */
  constructor(
    address,
    signal,
    {
      fixed = {},
      onChoice = null,
      trace = null,
      nothing = "No ready messages. Publish a message to see it here.",
    } = {},
  ) {
    this.#address = address;
    this.#signal = signal;
    this.#fixed = fixed;
    this.#onChoice = onChoice;
    this.#trace = trace;
    this.nothing = nothing;
    this.list = h("div", { class: "messages" });
    this.all = h("input", {
      type: "checkbox",
      "aria-label": "Select all shown messages",
      onchange: () => this.#chooseAll(this.all.checked),
    });
    this.tools = h(
      "form",
      { class: "table-tools filter" },
      onChoice && this.all,
      FILTERS.map((one) => filterInput(one)),
      h("button", { type: "submit" }, "Search messages"),
    );
    this.tools.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#limit = FEW;
      this.refresh();
    });
    this.element = h("div", { class: "card browser" }, this.tools, this.list);
    this.refresh();
  }

  /** The filter as typed. */
  get filter() {
    return filterOf(new FormData(this.tools));
  }

  async refresh() {
    const asked = this.filter;
    try {
      const answer = await get(
        `${this.#address}/messages`,
        { limit: this.#limit, ...this.#fixed, ...asked },
        { signal: this.#signal },
      );
      this.#asked = asked;
      this.#show(answer);
    } catch (problem) {
      if (problem.name === "AbortError") return;
      fill(this.list, problemBox(problem));
      if (problem.status === 0) setTimeout(() => this.#signal.aborted || this.refresh(), INTERVAL);
    }
  }

  #show(answer) {
    const messages = answer.messages ?? [];
    const there = new Set(messages.map((one) => one.id));
    this.#chosen = new Set([...this.#chosen].filter((id) => there.has(id)));
    this.all.disabled = !messages.length;
    if (!messages.length) {
      const isFiltered = Object.keys(this.#asked).length > 0;
      fill(
        this.list,
        h(
          "p",
          { class: "empty" },
          isFiltered ? `No match in ${plural(answer.examined, "message")}.` : this.nothing,
          answer.too_large > 0 && ` ${plural(answer.too_large, "message")} too large to search.`,
        ),
      );
    } else {
      fill(
        this.list,
        messages.map((one, number) => this.#message(one, number)),
        this.#note(answer, messages.length),
      );
    }
    this.#reportSelection();
  }

  #note(answer, shown) {
    const more = () => {
      this.#limit = Math.min(this.#limit * 4, MOST);
      this.refresh();
    };
    return h(
      "p",
      { class: "faint note" },
      answer.is_complete
        ? `All ${plural(shown, "message")} shown. Browsing does not remove messages.`
        : `First ${plural(shown, "message")} shown. Browsing does not remove messages. `,
      answer.too_large > 0 && `${plural(answer.too_large, "message")} too large to search. `,
      !answer.is_complete &&
        shown === this.#limit &&
        this.#limit < MOST &&
        h("button", { type: "button", onclick: more }, "Show more"),
    );
  }

  #message(one, number) {
    const body = bytesOf(one);
    const box =
      this.#onChoice &&
      h("input", {
        type: "checkbox",
        "aria-label": `Select message ${number + 1}`,
        checked: this.#chosen.has(one.id),
        onchange: (event) => this.#choose(one.id, event.target.checked),
      });
    const content = h("div", { class: "message-body" });
    const whole = () => getBytes(`${this.#address}/messages/${encodeURIComponent(one.id)}/body`);
    const element = h(
      "details",
      { class: "message", "data-id": one.id },
      h("summary", {}, h("span", { class: "faint ordinal right" }, `${number + 1}`), messageRow(one, body)),
      content,
    );
    element.addEventListener(
      "toggle",
      () =>
        element.open &&
        !content.hasChildNodes() &&
        fill(content, opened(one, body, whole), this.#trace && h("p", { class: "note" }, this.#trace(one))),
    );
    return box ? h("div", { class: "message-choice" }, box, element) : element; // a summary has no other controls
  }

  #choose(id, isOn) {
    if (isOn) this.#chosen.add(id);
    else this.#chosen.delete(id);
    this.#reportSelection();
  }

  #chooseAll(isOn) {
    for (const box of this.list.querySelectorAll("input")) box.checked = isOn;
    const shown = [...this.list.querySelectorAll("details")].map((one) => one.dataset.id ?? "");
    this.#chosen = new Set(isOn ? shown : []);
    this.#reportSelection();
  }

  #reportSelection() {
    const shown = this.list.querySelectorAll(".message").length;
    this.all.checked = shown > 0 && this.#chosen.size === shown;
    this.all.indeterminate = this.#chosen.size > 0 && this.#chosen.size < shown;
    this.#onChoice?.([...this.#chosen]);
  }
}
