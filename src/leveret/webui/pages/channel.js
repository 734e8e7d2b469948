// One channel: unacked and unconfirmed messages, rates, consumers.

import { path as at, get } from "../api.js";
import { lineChart, pointsOf } from "../chart.js";
import { fill, fillFor, h } from "../dom.js";
import { number, rate } from "../format.js";
import { objectHead, section } from "../layout.js";
import { endTrouble, showTrouble } from "../notices.js";
import { poll } from "../poll.js";
import { link } from "../router.js";
import { Tiles } from "../tiles.js";
import { modeOf } from "./channels.js";
import { connectionLink, prefetch, stateBadge } from "./connection_format.js";
import { consumersTable } from "./consumers.js";

export const path = "/channels/:name";
export const under = "Connections";
export const title = ({ name }) => name;

const WINDOW = { msg_rates_age: 300, msg_rates_incr: 5 };
const RATES = [
  ["Publish", "publish"],
  ["Confirm", "confirm"],
  ["Deliver", "deliver_get"],
];

export function show(place, { name }, signal) {
  const address = at`/api/channels/${name}`;
  const about = h("span", {}, "channel");
  const trouble = h("div", {});
  const tiles = new Tiles();
  const rates = lineChart("Message rates");
  poll(
    signal,
    async () => {
      const channel = await get(address, WINDOW, { signal });
      endTrouble(trouble);
      const connection = channel.connection_details.name;
      const mode = modeOf(channel);
      fillFor(about, [connection, channel.state, mode], () => [
        "channel of ",
        h("a", { href: connectionLink(connection) }, connection),
        " ",
        stateBadge(channel.state),
        mode && h("span", { class: "badge" }, mode),
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
      rates.draw(
        RATES.map(([label, key]) => ({ label, points: pointsOf(stats[`${key}_details`], true) })),
        rate,
      );
    },
    (problem) => showTrouble(trouble, problem, "All connections", "#/connections"),
  );
  fill(
    place,
    objectHead(name, about),
    trouble,
    tiles.element,
    rates.element,
    section("Consumers", consumers(address, signal)),
  );
}

function consumers(address, signal) {
  const queue = {
    title: "Queue",
    sort: "queue.name",
    value: (row) => [row.queue.vhost, row.queue.name],
    show: ([vhost, name]) => h("a", { href: link`/queues/${vhost}/${name}`, title: name }, name),
  };
  const options = { sort: "consumer_tag", empty: "No consumers on this channel." };
  return consumersTable(address, signal, queue, 2, options);
}
