// The queues with the most ready messages, and the reason.

import { get } from "../api.js";
import { h } from "../dom.js";
import { duration, number } from "../format.js";
import { nameColumn } from "../list_page.js";
import { numeric, rowsSource, Table } from "../table.js";
import { findingsOf } from "./queue_findings.js";
import { DRAINS_IN, queueAddress } from "./queues.js";

const SHOWN = 5;
const SOME = 25; // requested, because streams are left out and are often the longest
const MANY = 500; // the API's largest page
const COLUMNS =
  "name,vhost,type,state,consumers,consumers_busy,messages,messages_ready,messages_unacknowledged,oldest_message_age," +
  "drain_estimate,message_stats.publish_details.rate,message_stats.deliver_get_details.rate";

export function longestQueues(signal) {
  const longest = new Longest();
  const table = new Table({
    columns: [
      { ...nameColumn(queueAddress), title: "Queue" },
      numeric("Ready", "messages_ready", number),
      numeric("Oldest", "oldest_message_age", duration, { rank: 2, width: "age" }),
      DRAINS_IN,
      { title: "Why", rank: 2, width: "why", value: (row) => findingsOf(row)[0]?.brief ?? "" },
    ].map((column) => ({ ...column, sort: undefined })), // always by ready messages
    source: rowsSource((signal) => longest.load(signal)),
    signal,
    noun: "queue",
    toolsFrom: Infinity,
    emptiness: () => longest.isCut,
    empty: (isCut) =>
      isCut
        ? `The ${MANY} longest queues are streams. See Queues for all other queues.`
        : "No queue has ready messages.",
  });
  return h("section", {}, h("h2", {}, "Longest queues"), table.element);
}

/** Streams keep their messages and are left out. If they fill the page, a larger page is requested. */
class Longest {
  #size = SOME;
  isCut = false; // there may be more queues than were loaded

  async load(signal) {
    const { items } = await get(
      "/api/queues",
      { page: 1, page_size: this.#size, sort: "messages_ready", sort_reverse: true, columns: COLUMNS },
      { signal },
    );
    const waiting = items.filter((row) => row.messages_ready && row.type !== "stream");
    this.isCut = items.length === this.#size && items.at(-1).messages_ready > 0;
    if (waiting.length >= SHOWN || !this.isCut || this.#size === MANY) return waiting.slice(0, SHOWN);
    this.#size = MANY; // also for the next polls
    return this.load(signal);
  }
}
