// The channels of a connection.

import { get } from "../api.js";
import { h } from "../dom.js";
import { number, rate } from "../format.js";
import { rowsSource, Table } from "../table.js";
import { channelLink, prefetch, stateBadge } from "./connection_format.js";

export function channelsTable(address, signal) {
  const load = (signal) => get(address, undefined, { signal });
  const table = new Table({
    columns: [
      {
        title: "Channel",
        sort: "number",
        width: "name",
        value: (row) => [row.number, row.name],
        show: ([number, name]) => h("a", { href: channelLink(name) }, String(number)),
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
        title: "Unacked",
        sort: "messages_unacknowledged",
        align: "right",
        width: "s",
        value: (row) => row.messages_unacknowledged,
        show: number,
      },
      {
        title: "Unconfirmed",
        sort: "messages_unconfirmed",
        align: "right",
        rank: 3,
        width: "m",
        value: (row) => row.messages_unconfirmed,
        show: number,
      },
      {
        title: "Consumers",
        sort: "consumer_count",
        align: "right",
        width: "s",
        value: (row) => row.consumer_count,
        show: number,
      },
      {
        title: "Publish rate",
        sort: "message_stats.publish_details.rate",
        align: "right",
        rank: 2,
        width: "s",
        value: (row) => row.message_stats?.publish_details?.rate,
        show: rate,
      },
      {
        title: "Deliver rate",
        sort: "message_stats.deliver_get_details.rate",
        align: "right",
        rank: 2,
        width: "s",
        value: (row) => row.message_stats?.deliver_get_details?.rate,
        show: rate,
      },
    ],
    source: rowsSource(load, (row) => String(row.number)),
    signal,
    sort: "number",
    noun: "channel",
    empty: () =>
      h("p", { class: "empty" }, "No open channels. A client opens a channel before it publishes or consumes."),
  });
  table.tools.remove(); // channels have only numbers
  return table.element;
}

export function modeOf(channel) {
  if (channel.transactional) return "transactional";
  return channel.confirm ? "confirm" : "";
}
