// Overview of the broker: totals, rates, alarms, longest queues, node.

import { get } from "../api.js";
import { lineChart, pointsOf } from "../chart.js";
import { fill, h, setText } from "../dom.js";
import { bytes, duration, isNumber, number, plural, rate } from "../format.js";
import { pageHead } from "../layout.js";
import { showProblem } from "../notices.js";
import { poll } from "../poll.js";
import { firstSteps } from "./first_steps.js";
import { longestQueues } from "./longest_queues.js";
import { addQueue } from "./queues.js";

export const path = "/";
export const nav = "Overview";
export const title = () => "Overview";

const SPANS = [
  ["10 min", 600, 5],
  ["1 h", 3600, 60],
  ["8 h", 28800, 300],
];
const RATES = [
  ["Publish", "publish"],
  ["Deliver", "deliver_get"],
  ["Ack", "ack"],
];

export function show(place, _parameters, signal, user) {
  const maySeeNodes = user.tags.includes("monitoring") || user.tags.includes("administrator");
  const tiles = new Tiles();
  const alarms = h("div", { class: "alarms" });
  const trouble = h("div", {});
  const start = h("div", {});
  const queued = lineChart("Queued messages");
  const moved = lineChart("Message rates");
  const longest = longestQueues(signal);
  const node = h("div", { class: "card node" });
  const listeners = h("div", { class: "card listeners" });
  let span = SPANS[0];
  const refresh = () => ask();
  const spans = spanButtons((chosen) => {
    span = chosen;
    refresh();
  });
  fill(
    place,
    pageHead("Overview", null, spans),
    alarms,
    trouble,
    tiles.element,
    start,
    h("div", { class: "charts" }, queued.element, moved.element),
    longest,
    h("div", { class: "charts" }, node, listeners),
  );
  const ask = poll(
    signal,
    async () => {
      const [, age, step] = span;
      const query = { lengths_age: age, lengths_incr: step, msg_rates_age: age, msg_rates_incr: step };
      const overview = await get("/api/overview", query, { signal });
      fill(trouble);
      tiles.show(overview);
      queued.draw(lengthsOf(overview.queue_totals ?? {}));
      moved.draw(ratesOf(overview.message_stats ?? {}), rate);
      showListeners(listeners, overview);
      const isNew = overview.object_totals?.queues === 0;
      longest.hidden = isNew;
      if (isNew !== start.hasChildNodes()) fill(start, isNew && firstSteps(user, overview, addQueue));
      const nodes = maySeeNodes ? await get("/api/nodes", undefined, { signal }) : [];
      fill(alarms, alarmsOf(nodes));
      showNode(node, nodes[0]);
    },
    (problem) => showProblem(trouble, problem),
  );
}

function spanButtons(choose) {
  const buttons = SPANS.map((span, at) =>
    h(
      "button",
      {
        type: "button",
        "aria-pressed": String(at === 0),
        onclick: (event) => {
          for (const button of buttons) button.setAttribute("aria-pressed", String(button === event.currentTarget));
          choose(span);
        },
      },
      span[0],
    ),
  );
  return h("div", { class: "spans", role: "group", "aria-label": "Time range" }, buttons);
}

class Tiles {
  #values = new Map();

  constructor() {
    const tile = (name, label, address) => {
      const value = h("b", {}, "–");
      const note = h("small", { class: "faint" });
      this.#values.set(name, { value, note });
      return h(address ? "a" : "div", { class: "tile", href: address }, h("span", {}, label), value, note);
    };
    this.element = h(
      "div",
      { class: "tiles eight" },
      tile("ready", "Ready", "#/queues"),
      tile("unacked", "Unacked", "#/queues"),
      tile("publish", "Publish rate"),
      tile("deliver", "Deliver rate"),
      tile("ack", "Ack rate"),
      tile("queues", "Queues", "#/queues"),
      tile("exchanges", "Exchanges", "#/exchanges"),
      tile("connections", "Connections", "#/connections"),
    );
  }

  show(overview) {
    const totals = overview.queue_totals ?? {};
    const stats = overview.message_stats ?? {};
    const objects = overview.object_totals ?? {};
    this.#set("ready", number(totals.messages_ready ?? 0), trend(totals.messages_ready_details));
    this.#set("unacked", number(totals.messages_unacknowledged ?? 0), trend(totals.messages_unacknowledged_details));
    this.#set("publish", rate(stats.publish_details?.rate), `${number(stats.publish)} total`);
    this.#set("deliver", rate(stats.deliver_get_details?.rate), `${number(stats.deliver_get)} total`);
    this.#set("ack", rate(stats.ack_details?.rate), `${number(stats.ack)} total`);
    this.#set("queues", number(objects.queues), plural(objects.consumers, "consumer"));
    this.#set("exchanges", number(objects.exchanges), "");
    this.#set("connections", number(objects.connections), plural(objects.channels, "channel"));
  }

  #set(name, value, note) {
    const tile = this.#values.get(name);
    setText(tile.value, value);
    setText(tile.note, note);
  }
}

function trend(details) {
  const speed = details?.rate;
  if (!isNumber(speed) || Math.abs(speed) < 0.05) return "steady";
  return speed > 0 ? `growing by ${rate(speed)}` : `shrinking by ${rate(-speed)}`;
}

function lengthsOf(totals) {
  return [
    { label: "Ready", points: pointsOf(totals.messages_ready_details), now: totals.messages_ready },
    { label: "Unacked", points: pointsOf(totals.messages_unacknowledged_details), now: totals.messages_unacknowledged },
    { label: "Total", points: pointsOf(totals.messages_details), now: totals.messages },
  ];
}

function ratesOf(stats) {
  return RATES.map(([label, name]) => ({ label, points: pointsOf(stats[`${name}_details`], true) }));
}

function alarmsOf(nodes) {
  return nodes.flatMap((node) => [
    node.mem_alarm &&
      alarm(
        "Memory alarm",
        `Memory use of node ${node.name}, ${bytes(node.mem_used)}, is above the high watermark of ` +
          `${bytes(node.mem_limit)}: publishers are blocked. Let consumers catch up, or raise memory_high_watermark.`,
      ),
    node.disk_free_alarm &&
      alarm(
        "Disk alarm",
        `Free disk space of node ${node.name}, ${bytes(node.disk_free)}, is below the limit of ` +
          `${bytes(node.disk_free_limit)}: publishers are blocked. Free some disk space.`,
      ),
  ]);
}

function alarm(name, text) {
  return h("div", { class: "problem", role: "alert" }, h("strong", {}, name), h("p", {}, text));
}

function showNode(card, node) {
  if (!node)
    return fill(
      card,
      h("h2", {}, "Node"),
      h("p", { class: "faint" }, "Shown to users with the tag monitoring or administrator."),
    );
  return fill(
    card,
    h("h2", {}, "Node"),
    h("p", { class: "name" }, node.name),
    gauge("Memory", node.mem_used, node.mem_limit, bytes, " high watermark"),
    gauge("File descriptors", node.fd_used, node.fd_total, number),
    gauge("Sockets", node.sockets_used, node.sockets_total, number),
    fact("Free disk space", `${bytes(node.disk_free)} (alarm below ${bytes(node.disk_free_limit)})`),
    fact("Uptime", duration(isNumber(node.uptime) ? node.uptime / 1000 : undefined)),
  );
}

function gauge(label, used, limit, show, limitName = "") {
  if (!isNumber(used) || !isNumber(limit) || limit <= 0) return fact(label, show(used));
  return h(
    "div",
    { class: "gauge" },
    h("span", {}, label),
    h("meter", { min: 0, max: limit, high: limit * 0.8, value: Math.min(used, limit), "aria-label": label }),
    h("span", { class: "faint" }, `${show(used)} of ${show(limit)}${limitName}`),
  );
}

function fact(label, value) {
  return h("div", { class: "fact" }, h("span", {}, label), h("span", {}, value));
}

function showListeners(card, overview) {
  const listeners = overview.listeners ?? [];
  fill(
    card,
    h("h2", {}, "Listening ports"),
    listeners.map((one) => fact(one.protocol, `${one.ip_address ?? ""}:${one.port}`)),
    listeners.length === 0 && h("p", { class: "faint" }, "–"),
    fact("Version", `${overview.product_name ?? "Leveret"} ${overview.product_version ?? "–"}`),
    fact("Cluster", overview.cluster_name ?? "–"),
  );
}
