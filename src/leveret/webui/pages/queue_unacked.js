// The unacked messages of a queue: which connection holds which message, and since when.

import { get } from "../api.js";
import { h, setText } from "../dom.js";
import { bytes, duration, plural } from "../format.js";
import { badge } from "../layout.js";
import { numeric, rowsSource, Table } from "../table.js";
import { CHANNEL, CONNECTION } from "./connection_format.js";

const MOST = 200; // messages

/** Polls only while it is shown: see `section`. */
export function unackedTable(address, signal) {
  const note = h("p", { class: "faint" });
  let held = 0; // by clients; the oldest are listed
  const load = async (signal) => {
    const answer = await get(`${address}/unacked`, { limit: MOST }, { signal });
    held = answer.held_by_clients ?? 0;
    setText(note, furtherIn(answer));
    return answer.messages;
  };
  const source = rowsSource(load, (row) => `${row.task} ${row.message_id} ${row.consumer_tag} ${row.routing_key}`);
  const table = new Table({
    columns: [
      {
        title: "Message",
        width: "name",
        value: (row) => row.task || row.message_id || row.correlation_id || row.routing_key,
      },
      numeric("Held for", "seconds", duration, { width: "age" }),
      CONNECTION,
      { ...CHANNEL, rank: 2 },
      {
        title: "Consumer tag",
        sort: "consumer_tag",
        rank: 2,
        value: (row) => row.consumer_tag ?? "basic.get",
      },
      numeric("Delivery tag", "delivery_tag", String, { rank: 3, width: "s" }),
      {
        title: "Redelivered",
        rank: 3,
        width: "m",
        value: (row) => [row.redelivered, row.delivery_count],
        show: ([isAgain, count]) => (isAgain ? badge(`${count} times`, "warn") : "no"),
      },
      { title: "Routing key", rank: 4, value: (row) => row.routing_key },
      numeric("Size", "size", bytes, { rank: 4, width: "xs" }),
    ],
    source: async (question, signal) => {
      const page = await source(question, signal);
      return { ...page, total_count: Math.max(held, page.total_count) };
    },
    signal,
    sort: "seconds",
    reverse: true,
    noun: "unacked message",
    toolsFrom: 8,
    empty: "No connection holds messages of this queue.",
  });
  return [table.element, note];
}

/** Unacked messages that no connection holds. */
function furtherIn({ messages_unacknowledged: all, held_by_clients: clients, held_by_other_cells: cells }) {
  const further = (/** @type {number} */ count, /** @type {string} */ where) =>
    count > 0 ? `${plural(count, "further message")} ${count === 1 ? "is" : "are"} held ${where}. ` : "";
  const others = all - clients - cells;
  return further(cells, "through other cells") + further(others, "by leases or in-process clients");
}
