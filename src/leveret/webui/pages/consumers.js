// The consumers of a queue or a channel.

import { get } from "../api.js";
import { rowsSource, Table } from "../table.js";
import { prefetch } from "./connection_format.js";

/** `column` shows the other end: the connection, or the queue. Columns of lower importance have this `rank`. */
export function consumersTable(address, signal, column, rank, options) {
  const load = async (signal) =>
    (await get(address, { columns: "consumer_details" }, { signal })).consumer_details ?? [];
  return new Table({
    columns: [
      { title: "Consumer tag", sort: "consumer_tag", width: "name", value: (row) => row.consumer_tag },
      column,
      { title: "Ack mode", rank, width: "s", value: (row) => (row.ack_required ? "manual" : "automatic") },
      { title: "Prefetch count", rank: 2, align: "right", width: "s", value: (row) => prefetch(row.prefetch_count) },
      { title: "State", rank, width: "m", value: (row) => row.activity_status },
    ],
    source: rowsSource(load, (row) => `${row.consumer_tag} ${row.queue.name}`),
    signal,
    noun: "consumer",
    ...options,
  }).element;
}
