// All channels.

import { path as at, get } from "../api.js";
import { fill, h } from "../dom.js";
import { nameText, pageHead } from "../layout.js";
import { listTable, NODE, VHOST } from "../list_page.js";
import { filteredSource } from "../local_filter.js";
import { keptVhost } from "../vhosts.js";
import { channelColumns } from "./channels.js";
import { connectionLink, peerIn } from "./connection_format.js";

export const path = "/channels";
export const nav = "Channels";
export const title = () => "Channels";

const textOf = (row) => [row.name, row.connection_details?.user_provided_name, row.user, row.vhost].join(" ");

const CONNECTION = {
  title: "Connection",
  sort: "connection_details.name",
  width: "name",
  value: ({ connection_details: details }) => [details.name, details.user_provided_name ?? ""],
  show: ([name, provided]) => h("a", { href: connectionLink(name), title: name }, nameText(provided || peerIn(name))),
};

export function show(place, _parameters, signal) {
  const ask = (question, signal) => {
    const vhost = keptVhost();
    return get(vhost ? at`/api/vhosts/${vhost}/channels` : "/api/channels", question, { signal });
  };
  const [channel, ...others] = channelColumns();
  const table = listTable({
    columns: [
      CONNECTION,
      { ...channel, sort: "name", width: "xs" },
      { title: "User", sort: "user", rank: 2, width: "s", value: (row) => row.user },
      VHOST,
      NODE,
      ...others,
    ],
    source: filteredSource(ask, textOf),
    signal,
    id: "channels",
    noun: "channel",
    placeholder: "Filter by connection or user",
    empty: "No open channels. A client opens a channel before it publishes or consumes.",
  });
  fill(place, pageHead("Channels"), table.element);
}
