// The queues in which most messages wait, with the reason: where to look first when something is slow.

import { get } from "../api.js";
import { h } from "../dom.js";
import { duration, number } from "../format.js";
import { Table, rowsSource } from "../table.js";
import { queueLink } from "./queue_link.js";
import { findingsOf } from "./queue_findings.js";
import { drain } from "./queues.js";

const SHOWN = 5;
const COLUMNS = [
  "name", "vhost", "type", "state", "consumers", "messages", "messages_ready", "messages_unacknowledged", "oldest_message_age",
  "drain_estimate", "message_stats.publish_details.rate", "message_stats.deliver_get_details.rate",
].join(",");

export function longestQueues(signal) {
  const question = { page: 1, page_size: SHOWN, sort: "messages_ready", sort_reverse: true, columns: COLUMNS };
  const load = async (signal) => (await get("/api/queues", question, { signal })).items.filter((row) => row.messages_ready && row.type !== "stream");
  const table = new Table({
    columns: [
      { title: "Queue", width: "name", value: (row) => [row.vhost, row.name], show: ([vhost, name]) => queueLink(vhost, name) },
      { title: "Ready", align: "right", width: "s", value: (row) => row.messages_ready, show: number },
      { title: "Oldest", align: "right", rank: 2, width: "age", value: (row) => row.oldest_message_age, show: duration },
      { title: "Empty in", align: "right", rank: 3, width: "age", value: (row) => [row.drain_estimate, row.messages], show: ([seconds, messages]) => drain(seconds, { messages }) },
      { title: "Why", rank: 2, width: "why", value: (row) => findingsOf(row)[0]?.brief ?? "" },
    ],
    source: rowsSource(load),
    signal,
    noun: "queue",
    toolsFrom: Infinity,
    empty: () => h("p", { class: "empty" }, "No message waits in any queue."),
  });
  return h("section", {}, h("h2", {}, "Longest queues"), table.element);
}
