// The time range of charts: buttons, and the query for the history.

import { h } from "./dom.js";

/** @typedef {{ name: string, age: number, step: number }} TimeRange seconds */

/** @type {TimeRange[]} */
const ALL = [
  { name: "10 min", age: 600, step: 5 },
  { name: "1 h", age: 3600, step: 60 },
  { name: "8 h", age: 28800, step: 300 },
  { name: "24 h", age: 86400, step: 900 },
];
let chosen = ALL[0]; // kept from page to page

class TimeRanges {
  #ranges;

  /** @param {TimeRange[]} ranges the shortest first */
  constructor(ranges) {
    this.#ranges = ranges;
  }

  /** The chosen one, or the longest one if another page has chosen a longer one. */
  get current() {
    return this.#ranges.includes(chosen) ? chosen : this.#ranges[this.#ranges.length - 1];
  }

  /**
   * The query for the history: query("lengths", "msg_rates").
   * @param {...string} kinds
   */
  query(...kinds) {
    const { age, step } = this.current;
    return Object.fromEntries(
      kinds.flatMap((kind) => Object.entries({ [`${kind}_age`]: age, [`${kind}_incr`]: step })),
    );
  }

  /** @param {() => void} whenChosen */
  buttons(whenChosen) {
    const buttons = this.#ranges.map((range) =>
      h(
        "button",
        {
          type: "button",
          "aria-pressed": String(range === this.current),
          onclick: (/** @type {MouseEvent} */ event) => {
            for (const button of buttons) button.setAttribute("aria-pressed", String(button === event.currentTarget));
            chosen = range;
            whenChosen();
          },
        },
        range.name,
      ),
    );
    return h("div", { class: "spans", role: "group", "aria-label": "Time range" }, buttons);
  }
}

/** Of the broker, its nodes and virtual hosts. */
export const brokerRanges = new TimeRanges(ALL);
/** Of queues, exchanges, connections and channels. */
export const objectRanges = new TimeRanges(ALL.slice(0, 2));
