// All consumers.

import { get } from "../api.js";
import { fill } from "../dom.js";
import { pageHead } from "../layout.js";
import { listAddress, listTable, NODE } from "../list_page.js";
import { filteredSource } from "../local_filter.js";
import { consumerColumns, consumerText } from "./consumers.js";

export const path = "/consumers";
export const nav = "Consumers";
export const title = () => "Consumers";

const VHOST = { title: "Vhost", sort: "queue.vhost", rank: 4, width: "s", value: (row) => row.queue.vhost };

export function show(place, _parameters, signal, user) {
  const ask = (question, signal) => get(listAddress("consumers"), question, { signal });
  const hideSearch = () => {
    table.search.hidden = true; // the broker filters by name, and consumers have no name
  };
  const node = { ...NODE, sort: undefined, value: (row) => row.channel_details?.node };
  const columns = consumerColumns(user, ["queue", "channel"], () => table.refresh());
  columns.splice(-1, 0, VHOST, node); // the button comes last
  const table = listTable({
    columns,
    source: filteredSource(ask, consumerText, hideSearch),
    signal,
    id: "consumers",
    sort: "consumer_tag",
    noun: "consumer",
    placeholder: "Filter by tag, queue or connection",
    empty: "No consumers. A client consumes a queue with basic.consume.",
  });
  fill(place, pageHead("Consumers"), table.element);
}
