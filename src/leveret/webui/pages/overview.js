// Overview of the broker: totals, rates, churn, longest queues, node.

import { get } from "../api.js";
import { addedDetails, lineChart, pointsOf, rateSeries } from "../chart.js";
import { fill, h, setText } from "../dom.js";
import { byteRate, isNumber, number, plural, rate } from "../format.js";
import { pageHead } from "../layout.js";
import { showProblem } from "../notices.js";
import { poll } from "../poll.js";
import { brokerRanges } from "../time_range.js";
import { FURTHER_RATES, lengthSeries, RATES, TRAFFIC } from "./broker_charts.js";
import { firstSteps } from "./first_steps.js";
import { longestQueues } from "./longest_queues.js";
import { fact, MAY_NOT_SEE, maySeeNodes, nodeFacts } from "./node_card.js";
import { addQueue } from "./queues.js";

export const path = "/";
export const nav = "Overview";
export const title = () => "Overview";

const CONNECTION_CHURN = {
  "Connections opened": "connection_created",
  "Connections closed": "connection_closed",
  "Channels opened": "channel_created",
  "Channels closed": "channel_closed",
};
const OF_NODE =
  "name,mem_used,mem_limit,fd_used,fd_total,sockets_used,sockets_total,disk_free,disk_free_limit,uptime," +
  "io_write_bytes_details,io_read_bytes_details";
const QUEUE_CHURN = { Declared: "queue_declared", Created: "queue_created", Deleted: "queue_deleted" };

export function show(place, _parameters, signal, user) {
  const tiles = new Tiles();
  const trouble = h("div", {});
  const start = h("div", {});
  const charts = new Charts(maySeeNodes(user));
  const longest = longestQueues(signal);
  const node = h("div", { class: "card node" });
  const listeners = h("div", { class: "card listeners" });
  const refresh = () => ask();
  fill(
    place,
    pageHead("Overview", null, brokerRanges.buttons(refresh)),
    trouble,
    tiles.element,
    start,
    charts.element,
    longest,
    h("div", { class: "charts" }, node, listeners),
  );
  const ask = poll(
    signal,
    async () => {
      const overview = await get("/api/overview", brokerRanges.query("lengths", "msg_rates"), { signal });
      fill(trouble);
      tiles.show(overview);
      charts.draw(overview);
      showListeners(listeners, overview);
      const isNew = overview.object_totals?.queues === 0;
      longest.hidden = isNew;
      if (isNew !== start.hasChildNodes()) fill(start, isNew && firstSteps(user, overview, addQueue));
      const nodes = maySeeNodes(user)
        ? await get("/api/nodes", { ...brokerRanges.query("node_stats"), columns: OF_NODE }, { signal })
        : [];
      charts.drawDisk(nodes);
      showNode(node, nodes);
    },
    (problem) => showProblem(trouble, problem),
  );
}

/** Data rates, disk and churn are of the node: users who may not see it have no such charts. */
class Charts {
  #queued = lineChart("Queued messages");
  #rates = lineChart("Message rates");
  #further = lineChart("Redelivered, get, unroutable");
  #traffic = lineChart("Data rates");
  #connections = lineChart("Connection and channel churn");
  #queues = lineChart("Queue churn");
  #writes = lineChart("Journal writes");
  #reads = lineChart("Disk reads");

  constructor(isOfNode) {
    const common = [this.#queued, this.#rates, this.#further];
    const own = isOfNode ? [this.#traffic, this.#writes, this.#reads, this.#connections, this.#queues] : [];
    const elements = [...common, ...own].map((chart) => chart.element);
    this.element = h("div", { class: "charts" }, elements);
  }

  draw(overview) {
    const { age } = brokerRanges.current;
    this.#queued.draw(lengthSeries(overview.queue_totals ?? {}), undefined, age);
    this.#rates.draw(rateSeries(overview.message_stats, RATES), rate, age);
    this.#further.draw(rateSeries(overview.message_stats, FURTHER_RATES), rate, age);
    this.#traffic.draw(rateSeries(overview, TRAFFIC), byteRate, age);
    this.#connections.draw(rateSeries(overview.churn_rates, CONNECTION_CHURN), rate, age);
    this.#queues.draw(rateSeries(overview.churn_rates, QUEUE_CHURN), rate, age);
  }

  drawDisk(nodes) {
    const draw = (chart, label, name) => {
      const summed = addedDetails(nodes.map((node) => node[name]));
      chart.draw([{ label, points: pointsOf(summed, true) }], byteRate, brokerRanges.current.age);
    };
    draw(this.#writes, "Written", "io_write_bytes_details");
    draw(this.#reads, "Read", "io_read_bytes_details");
  }
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

function showNode(card, nodes) {
  const others = nodes.length - 1;
  const [node] = nodes;
  return fill(
    card,
    h("h2", {}, "Node"),
    node ? nodeFacts(node) : h("p", { class: "faint" }, MAY_NOT_SEE),
    node && h("p", {}, h("a", { href: "#/nodes" }, others > 0 ? `All ${nodes.length} nodes` : "History of the node")),
  );
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
