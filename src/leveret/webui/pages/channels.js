// Channels, and those of one connection.

import { get } from "../api.js";
import { h } from "../dom.js";
import { number, rate } from "../format.js";
import { numeric, rowsSource, Table } from "../table.js";
import { channelLink, prefetch, stateBadge } from "./connection_format.js";

export function channelsTable(address, signal) {
  const load = (signal) => get(address, undefined, { signal });
  const table = new Table({
    columns: channelColumns(),
    source: rowsSource(load, (row) => String(row.number)),
    signal,
    sort: "number",
    noun: "channel",
    empty: "No open channels. A client opens a channel before it publishes or consumes.",
  });
  table.tools.remove(); // channels have only numbers
  return table.element;
}

export function channelColumns() {
  return [
    {
      title: "Channel",
      sort: "number",
      width: "name",
      value: (row) => [row.number, row.name],
      show: ([number, name]) => h("a", { href: channelLink(name), title: name }, String(number)),
    },
    { title: "State", sort: "state", rank: 2, width: "s", value: (row) => row.state, show: stateBadge },
    { title: "Mode", rank: 3, width: "m", value: modeOf },
    {
      title: "Prefetch count",
      sort: "prefetch_count",
      align: "right",
      rank: 2,
      width: "s",
      value: (row) => prefetch(row.prefetch_count),
    },
    {
      title: "Prefetch (global)",
      sort: "global_prefetch_count",
      align: "right",
      rank: 5,
      width: "s",
      value: (row) => prefetch(row.global_prefetch_count),
    },
    numeric("Unacked", "messages_unacknowledged", number),
    numeric("Unconfirmed", "messages_unconfirmed", number, { rank: 3, width: "m" }),
    numeric("Uncommitted", "messages_uncommitted", number, { rank: 5, width: "m" }),
    numeric("Consumers", "consumer_count", number, { rank: 2 }),
    numeric("Publish rate", "message_stats.publish_details.rate", rate, { rank: 2 }),
    numeric("Deliver rate", "message_stats.deliver_get_details.rate", rate, { rank: 2 }),
  ];
}

export function modeOf(channel) {
  if (channel.transactional) return "transactional";
  return channel.confirm ? "confirm" : "";
}
