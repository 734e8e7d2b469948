// One stream, super stream or sharded queue: rates, partitions, readers and their lag, messages.

import { amount, lagColumn } from "../amount.js";
import { path as at, get, remove } from "../api.js";
import { lineChart, pointsOf, rateSeries, sparkline } from "../chart.js";
import { fill, h, setText } from "../dom.js";
import { bytes, duration, isNumber, number, rate } from "../format.js";
import { badge, nameLink, objectHead, section } from "../layout.js";
import { endTrouble, notify, showTrouble, undoable } from "../notices.js";
import { poll } from "../poll.js";
import { link } from "../router.js";
import { numeric, rowsSource, Table } from "../table.js";
import { Tiles } from "../tiles.js";
import { objectRanges } from "../time_range.js";
import { ValueHistory } from "../value_history.js";
import { connectionLink, peerIn } from "./connection_format.js";
import { deleteDialog } from "./queue_delete.js";
import { publishDialog } from "./queue_publish.js";
import { streamMessages } from "./stream_messages.js";
import { isUneven } from "./streams.js";

export const path = "/streams/:vhost/:name";
export const under = "Streams";
export const title = ({ name }) => name;

const RATES = { Publish: "publish", Deliver: "deliver_get", Ack: "ack" };

export function show(place, { vhost, name }, signal) {
  const view = new View(vhost, name);
  const lags = new ValueHistory();
  const below = h("div", { class: "stacked" });
  /** @type {any} */
  let stream = null;
  /** @type {{ heading: string, table: Table }[]} */
  const tables = [];
  const refresh = poll(
    signal,
    async () => {
      stream = await get(at`/api/streams/${vhost}/${name}`, objectRanges.query("lengths", "msg_rates"), { signal });
      for (const reader of stream.reader_details) lags.note(keyOf(reader), reader.lag);
      view.show(stream);
      if (!tables.length) open();
      else for (const { table } of tables) table.refresh();
    },
    (problem) => view.fail(problem),
  );

  /** The tables depend on the kind, which is known after the first response. */
  function open() {
    const isSharded = stream.kind === "shards";
    if (stream.partition_details) tables.push(partitions(() => stream, isSharded, signal));
    if (!isSharded)
      tables.push(
        readers(
          () => stream.reader_details,
          lags,
          signal,
          (reader) => deleteOffset(vhost, reader, refresh),
        ),
      );
    const names = stream.partition_details?.map((one) => one.name) ?? [name];
    fill(
      below,
      tables.map(({ heading, table }) => section(heading, table.element)),
      !isSharded && names.length > 0 && section("Messages", streamMessages(vhost, names, signal)),
    );
  }

  view.publish.addEventListener("click", () => publishDialog(vhost, name, refresh));
  view.remove.addEventListener("click", () => deleteDialog(at`/api/queues/${vhost}/${name}`, name, signal, "/streams"));
  fill(
    place,
    view.head,
    view.trouble,
    view.tiles.element,
    h("div", { class: "chart-tools" }, objectRanges.buttons(refresh)),
    h("div", { class: "charts" }, view.rates.element, view.lengths.element),
    below,
  );
}

const keyOf = (reader) =>
  JSON.stringify([reader.queue, reader.name, reader.consumer_tag, reader.channel_details?.name]);

class View {
  constructor(vhost, name) {
    this.kind = h("span", {}, "stream");
    this.badges = h("span", { class: "badges" });
    this.queue = h("a", { class: "button", href: link`/queues/${vhost}/${name}`, hidden: true }, "Queue details");
    this.exchange = h(
      "a",
      { class: "button", href: link`/exchanges/${vhost}/${name}`, hidden: true },
      "Exchange details",
    );
    this.publish = h("button", { type: "button", class: "strong", hidden: true }, "Publish message …");
    this.remove = h("button", { type: "button", class: "danger", hidden: true }, "Delete stream …");
    const about = [this.kind, ` in virtual host ${vhost} `, this.badges];
    this.head = objectHead(name, about, this.publish, this.queue, this.exchange, this.remove);
    this.trouble = h("div", {});
    this.tiles = new Tiles();
    this.tiles.element.classList.add("eight");
    this.rates = lineChart("Message rates");
    this.lengths = lineChart("Messages");
  }

  show(stream) {
    const isStream = stream.kind === "stream";
    setText(this.kind, stream.kind);
    this.queue.hidden = this.publish.hidden = this.remove.hidden = !isStream;
    this.exchange.hidden = isStream;
    if (stream.problem) showTrouble(this.trouble, { title: "No partitions", reason: stream.problem });
    else endTrouble(this.trouble);
    fill(
      this.badges,
      badgesOf(stream).map(([text, kind]) => badge(text, kind)),
    );
    this.tiles.show(Object.fromEntries(tilesOf(stream)));
    const stats = stream.message_stats ?? {};
    const { age } = objectRanges.current;
    this.rates.draw(rateSeries(stats, RATES), rate, age);
    const lengths = {
      label: stream.kind === "shards" ? "Ready" : "Messages",
      points: pointsOf(stream.messages_ready_details),
      now: stream.messages_ready,
    };
    this.lengths.draw([lengths], undefined, age);
  }

  fail(problem) {
    showTrouble(this.trouble, problem, "All streams", "#/streams");
  }
}

function tilesOf(stream) {
  const stats = stream.message_stats ?? {};
  const moved = [
    ["Publish rate", rate(stats.publish_details?.rate)],
    ["Deliver rate", rate(stats.deliver_get_details?.rate)],
  ];
  if (stream.kind === "shards") {
    return [
      ["Ready", number(stream.messages_ready)],
      ["Unacked", number(stream.messages_unacknowledged)],
      ...moved,
      ["Consumers", number(stream.consumers)],
      ["Shards", number(stream.partitions)],
      ["Largest share", percent(stream.largest_share)],
    ];
  }
  const places =
    stream.kind === "stream"
      ? [
          ["First offset", number(stream.first_offset)],
          ["Last offset", number(stream.last_offset)],
        ]
      : [
          ["Partitions", number(stream.partitions)],
          ["Largest share", percent(stream.largest_share)],
        ];
  return [
    ["Messages", number(stream.messages)],
    ...places,
    ["Largest lag", number(stream.lag)],
    ...moved,
    ["Size", bytes(stream.bytes)],
    ["Segments", number(stream.segments)],
  ];
}

function percent(share) {
  return isNumber(share) ? `${Math.round(share * 100)} %` : "–";
}

function badgesOf(stream) {
  const kept = stream.retention;
  return [
    stream.state === "paused" && ["paused", "warn"],
    kept && [
      isNumber(kept.max_age)
        ? `max age ${duration(kept.max_age)}`
        : isNumber(kept.max_bytes)
          ? ""
          : "no retention limit",
      "",
    ],
    kept && isNumber(kept.max_bytes) && [`max size ${bytes(kept.max_bytes)}`, ""],
    isUneven(stream.largest_share ?? 0, stream.partitions) && ["uneven", "warn"],
  ].filter((badge) => badge?.[0]);
}

function partitions(stream, isSharded, signal) {
  const offsets = {
    title: "Offsets",
    rank: 3,
    width: "m",
    value: (row) => `${number(row.first_offset)} – ${number(row.last_offset)}`,
  };
  const table = new Table({
    columns: [
      { title: "#", sort: "partition", width: "place", align: "right", value: (row) => row.partition },
      {
        title: isSharded ? "Queue" : "Stream",
        sort: "name",
        width: "name",
        value: (row) => [row.name, row.vhost, row.is_draining],
        show: (value) => partitionName(value, isSharded),
      },
      {
        title: isSharded ? "Ready" : "Messages",
        sort: isSharded ? "messages_ready" : "messages",
        align: "right",
        width: "s",
        value: (row) => (isSharded ? row.messages_ready : row.messages),
        show: number,
      },
      numeric("Unacked", "messages_unacknowledged", number, { rank: 2 }),
      numeric("Consumers", "consumers", number, { rank: 2 }),
      ...(isSharded ? [] : [offsets, numeric("Lag", "lag", number, { rank: 2 })]),
      numeric("Publish rate", "message_stats.publish_details.rate", rate, { rank: 2 }),
      numeric("Deliver rate", "message_stats.deliver_get_details.rate", rate, { rank: 3 }),
      {
        title: "Share",
        sort: "share",
        align: "right",
        width: "m",
        value: (row) => [row.share, stream().partitions],
        show: ([share, all]) => amount(share, percent(share), isUneven(share ?? 0, all)),
      },
    ],
    source: rowsSource(async () => stream().partition_details),
    signal,
    sort: "partition",
    noun: isSharded ? "shard" : "partition",
    empty: "No partitions. Bind streams to this exchange.",
  });
  return { heading: isSharded ? "Shards" : "Partitions", table };
}

function partitionName([name, vhost, isDraining], isSharded) {
  const address = isSharded ? link`/queues/${vhost}/${name}` : link`/streams/${vhost}/${name}`;
  return [isDraining && badge("draining", "warn"), nameLink(address, name)];
}

function readers(rows, lags, signal, deleteOffset) {
  const table = new Table({
    columns: [
      {
        title: "Reader",
        sort: "name",
        width: "name",
        value: (row) => [row.name, row.consumer_tag, row.pinned],
        show: readerName,
      },
      { title: "Stream", sort: "queue", rank: 3, value: (row) => row.queue },
      { title: "State", sort: "is_live", rank: 2, width: "m", value: (row) => (row.is_live ? "online" : "offline") },
      {
        title: "Connection",
        rank: 3,
        value: (row) => row.channel_details?.connection_name ?? "",
        show: (name) => (name ? h("a", { href: connectionLink(name), title: name }, peerIn(name)) : "–"),
      },
      numeric("Next offset", "offset", number, { rank: 2, width: "m" }),
      numeric("Unacked", "messages_unacknowledged", number, { rank: 3 }),
      {
        title: "Recent lag",
        rank: 2,
        width: "m",
        value: (row) => [lags.of(keyOf(row)), row.name ?? row.consumer_tag],
        show: ([values, name]) => sparkline(values, `Lag of ${name}`),
      },
      lagColumn(rows),
      {
        title: "",
        rank: 2,
        width: "action",
        value: ({ is_live, queue, name }) => ({ is_live, queue, name }),
        show: (reader) =>
          reader.is_live
            ? ""
            : h(
                "button",
                {
                  type: "button",
                  class: "in-row",
                  title: "Delete the stored offset",
                  onclick: () => deleteOffset(reader),
                },
                "Delete offset",
              ),
      },
    ],
    source: rowsSource(
      async () => rows(),
      (row) => `${row.name ?? ""} ${row.consumer_tag ?? ""} ${row.queue}`,
    ),
    signal,
    sort: "lag",
    reverse: true,
    noun: "reader",
    empty:
      "No readers. Consumers choose their start with x-stream-offset, and store their offset with x-stream-consumer.",
  });
  return { heading: "Readers", table };
}

function readerName([name, tag, isPinned]) {
  return [
    name ?? h("span", { class: "faint" }, tag),
    " ",
    isPinned && badge("pinned", "", "Retention keeps messages that this reader has not read"),
  ];
}

function deleteOffset(vhost, reader, changed) {
  const act = async () => {
    const query = new URLSearchParams({ queue: reader.queue, consumer: reader.name });
    await remove(`${at`/api/pipeline/${vhost}/consumers`}?${query}`);
    notify(`The stored offset of reader ${reader.name} was deleted.`);
  };
  undoable(`The stored offset of reader ${reader.name} in ${reader.queue} will be deleted`, act, changed);
}
