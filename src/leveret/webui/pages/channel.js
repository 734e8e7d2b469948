// One channel: unacked and unconfirmed messages, rates, consumers.

import { path as at, get } from "../api.js";
import { lineChart, rateSeries } from "../chart.js";
import { fill, fillFor, h } from "../dom.js";
import { number, rate } from "../format.js";
import { badge, hasSeveralNodes, objectHead, section } from "../layout.js";
import { endTrouble, showTrouble } from "../notices.js";
import { poll } from "../poll.js";
import { Tiles } from "../tiles.js";
import { objectRanges } from "../time_range.js";
import { modeOf } from "./channels.js";
import { connectionLink, prefetch, stateBadge } from "./connection_format.js";
import { consumersTable } from "./consumers.js";

export const path = "/channels/:name";
export const under = "Channels";
export const title = ({ name }) => name;

const RATES = {
  Publish: "publish",
  Confirm: "confirm",
  "Unroutable (returned)": "return_unroutable",
  Deliver: "deliver_get",
};

export function show(place, { name }, signal, user) {
  const address = at`/api/channels/${name}`;
  const about = h("span", {}, "channel");
  const trouble = h("div", {});
  const tiles = new Tiles();
  const rates = lineChart("Message rates");
  const refresh = poll(
    signal,
    async () => {
      const channel = await get(address, objectRanges.query("msg_rates"), { signal });
      endTrouble(trouble);
      const connection = channel.connection_details.name;
      const mode = modeOf(channel);
      fillFor(about, [connection, channel.state, mode], () => [
        "channel of ",
        h("a", { href: connectionLink(connection) }, connection),
        " ",
        stateBadge(channel.state),
        mode && badge(mode),
        hasSeveralNodes() && badge(`on ${channel.node}`),
      ]);
      tiles.show({
        Unacked: number(channel.messages_unacknowledged),
        Unconfirmed: number(channel.messages_unconfirmed),
        Uncommitted: number(channel.messages_uncommitted + channel.acks_uncommitted),
        "Prefetch count": prefetch(channel.prefetch_count),
        "Prefetch (global)": prefetch(channel.global_prefetch_count),
        Consumers: number(channel.consumer_count),
      });
      const stats = channel.message_stats ?? {};
      rates.draw(rateSeries(stats, RATES), rate, objectRanges.current.age);
    },
    (problem) => showTrouble(trouble, problem, "All channels", "#/channels"),
  );
  fill(
    place,
    objectHead(name, about),
    trouble,
    tiles.element,
    h("div", { class: "chart-tools" }, objectRanges.buttons(refresh)),
    rates.element,
    section(
      "Consumers",
      consumersTable(address, signal, user, ["queue"], {
        sort: "consumer_tag",
        empty: "No consumers on this channel.",
      }),
    ),
  );
}
