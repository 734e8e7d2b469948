// The graph around an exchange, or of a whole virtual host: nodes in layers, and edges between them.
//
// The walk starts at the exchange (layer 0), adds its sources (layer -1), then follows bindings, alternate exchanges
// and dead-letter exchanges as a message would. It is bounded, so that a virtual host with ten thousand queues costs a
// few requests; omitted bindings are counted.

import { path as at, get } from "../api.js";
import { exchangeInPath } from "./exchange_links.js";

export const MOST_NODES = 60;
const FAN = 12; // maximum destinations per exchange
const FEEDING = 8; // maximum sources of the exchange
const FOLLOWED = 20; // maximum exchanges whose bindings are requested
const ASKED = 200; // maximum bindings requested per exchange
const MOST_LAYERS = 5; // of a filtered picture
const MOST_PAGES = 10; // pages of bindings that are searched by the filter
const LISTED = 500; // maximum exchanges, and queues, whose alternate and dead-letter exchanges are requested

const EXCHANGE_COLUMNS = "name,type,arguments.alternate-exchange,effective_policy_definition.alternate-exchange";
const QUEUE_COLUMNS = [
  "name",
  "type",
  "arguments.x-dead-letter-exchange",
  "arguments.x-dead-letter-routing-key",
  "effective_policy_definition.dead-letter-exchange",
  "effective_policy_definition.dead-letter-routing-key",
].join(",");

export function nodeKey(kind, name) {
  return `${kind} ${name}`;
}

export function edgeKey(from, to) {
  return `${from}\n${to}`;
}

/** `route` is a response of the route tester: its steps are drawn first. */
export async function topologyOf(vhost, exchange, route, signal) {
  const facts = await factsOf(vhost, signal);
  const graph = new Graph(facts);
  const start = graph.node("exchange", exchange, 0);
  feed(graph, start, await askedFor(vhost, exchange, "destination", signal));
  await follow(graph, start, vhost, stepsBySource(route), signal);
  return graph;
}

/** The bindings whose exchange, destination or routing key contains the text, up to MOST_NODES. */
export async function filteredTopologyOf(vhost, text, signal) {
  const graph = new Graph(await factsOf(vhost, signal));
  const wanted = text.toLowerCase();
  const isWanted = (one) => [one.source, one.destination, one.routing_key].some((part) => holds(part, wanted));
  const { found, isAll } = await manyBindings(vhost, signal);
  graph.searched = isAll ? 0 : found.length;
  const bindings = found.filter((one) => one.source && isWanted(one));
  const layers = layersOf(bindings);
  for (const one of bindings) {
    const from = graph.node("exchange", one.source, layers.get(one.source) ?? 0);
    const layer = one.destination_type === "exchange" ? layers.get(one.destination) : (from?.layer ?? 0) + 1;
    const to = from && graph.node(one.destination_type, one.destination, layer);
    if (to) graph.edge(from, to, "binding", labelOf(one));
  }
  return graph;
}

const holds = (part, wanted) => (part ?? "").toLowerCase().includes(wanted);

/** Exchanges that are bound to others are further right; cycles end after MOST_LAYERS. */
function layersOf(bindings) {
  const between = bindings.filter((one) => one.destination_type === "exchange");
  const layers = new Map();
  for (let round = 0; round < MOST_LAYERS; round += 1) {
    for (const { source, destination } of between)
      layers.set(
        destination,
        Math.min(Math.max(layers.get(destination) ?? 0, (layers.get(source) ?? 0) + 1), round + 1),
      );
  }
  return layers;
}

/** The bindings of the default exchange come last; its bindings are not searched. */
async function manyBindings(vhost, signal) {
  const found = [];
  for (let page = 1; page <= MOST_PAGES; page += 1) {
    const query = { page, page_size: LISTED, sort: "source", sort_reverse: true };
    const answer = await get(at`/api/bindings/${vhost}`, query, { signal });
    found.push(...answer.items);
    if (found.length >= answer.total_count || !found.at(-1).source) return { found, isAll: true };
  }
  return { found, isAll: false };
}

/** The whole virtual host, starting at the exchanges without sources. */
export async function vhostTopologyOf(vhost, signal) {
  const graph = new Graph(await factsOf(vhost, signal));
  // In reverse, because the default exchange leads to every queue and must come last.
  const all = await get(
    at`/api/bindings/${vhost}`,
    { page: 1, page_size: LISTED, sort: "source", sort_reverse: true },
    { signal },
  );
  const bindings = all.items.filter((one) => one.source);
  graph.isCut = bindings.length < all.total_count && bindings.length === LISTED;
  const reached = new Set([
    ...bindings.filter((one) => one.destination_type === "exchange").map((one) => one.destination),
    ...[...graph.facts.exchange.values()].map((one) => one.alternate),
    ...[...graph.facts.queue.values()].map((one) => one.deadLetters?.exchange),
  ]);
  const sources = [...new Set(bindings.map((one) => one.source))].sort();
  for (const name of [...sources.filter((one) => !reached.has(one)), ...sources]) {
    if (graph.nodes.has(nodeKey("exchange", name))) continue;
    const start = graph.node("exchange", name, 0);
    if (start) await follow(graph, start, vhost, new Map(), signal);
  }
  return graph;
}

class Graph {
  nodes = new Map();
  edges = new Map();
  walked = new Set();
  followed = 0;
  isCut = false;
  searched = 0; // bindings, if not all of them

  constructor(facts) {
    this.facts = facts;
  }

  /** The node of that name, created in that layer if needed; null if the graph is full. */
  node(kind, name, layer) {
    const key = nodeKey(kind, name);
    if (!this.nodes.has(key)) {
      if (this.nodes.size >= MOST_NODES) {
        this.isCut = true;
        return null;
      }
      const fact = this.facts[kind].get(name);
      this.nodes.set(key, { key, kind, name, layer, type: fact?.type, isMissing: !fact && !this.facts.isPartial });
    }
    return this.nodes.get(key);
  }

  edge(from, to, style, label = "") {
    const key = edgeKey(from.key, to.key);
    const edge = this.edges.get(key) ?? { key, from: from.key, to: to.key, style, labels: [] };
    if (label && !edge.labels.includes(label)) edge.labels.push(label);
    if (style === "binding") edge.style = style;
    this.edges.set(key, edge);
  }

  /** Counts bindings of this node that are not drawn. */
  leftOut(node, count, layer) {
    if (count <= 0) return;
    const more = { key: nodeKey("more", `${layer} ${node.key}`), kind: "more", name: node.name, layer, count };
    this.nodes.set(more.key, more);
    if (layer > node.layer) this.edge(node, more, "binding");
    else this.edge(more, node, "binding");
  }

  /** Equal for equal graphs. */
  signature() {
    return JSON.stringify([[...this.nodes.values()], [...this.edges.values()], this.isCut, this.searched]);
  }
}

// ---- sources

function feed(graph, start, bindings) {
  const { facts } = graph;
  const feeding = [
    ...bindings.items.map((one) => ["exchange", one.source, "binding", labelOf(one)]),
    ...[...facts.exchange.values()]
      .filter((one) => one.alternate === start.name)
      .map((one) => ["exchange", one.name, "alternate", ""]),
    ...[...facts.queue.values()]
      .filter((one) => one.deadLetters?.exchange === start.name && start.name)
      .map((one) => ["queue", one.name, "dead-letter", one.deadLetters.key]),
  ];
  const drawn = new Set();
  let left = bindings.total_count - bindings.items.length;
  for (const [kind, name, style, label] of feeding) {
    const key = nodeKey(kind, name);
    if (!drawn.has(key) && drawn.size >= FEEDING) {
      left += 1;
      continue;
    }
    drawn.add(key);
    graph.edge(graph.node(kind, name, -1), start, style, label);
  }
  graph.leftOut(start, left, -1);
}

// ---- destinations

async function follow(graph, start, vhost, steps, signal) {
  const walked = [start];
  graph.walked.add(start);
  const meet = (from, kind, name, style, label) => {
    const node = graph.node(kind, name, from.layer + 1);
    if (!node) return false;
    graph.edge(from, node, style, label);
    if (node.layer < 0) node.layer = from.layer + 1; // a cycle: a source of the exchange is also a destination
    if (!graph.walked.has(node)) walked.push(node);
    graph.walked.add(node);
    return true;
  };
  for (const node of walked) {
    // the list grows during the loop
    if (node.isMissing) continue; // an alternate or dead-letter exchange that does not exist
    if (node.kind === "queue") {
      meetDeadLetters(graph, node, meet);
    } else if (graph.followed < FOLLOWED) {
      graph.followed += 1;
      await meetBindings(graph, node, vhost, steps.get(node.name) ?? [], meet, signal);
    } else {
      graph.isCut = true;
    }
  }
}

async function meetBindings(graph, node, vhost, steps, meet, signal) {
  const bindings = await askedFor(vhost, node.name, "source", signal);
  const drawn = new Set();
  const result = new Set(); // a step of the route may also be one of the bindings
  for (const one of [...steps, ...bindings.items]) {
    const key = nodeKey(one.destination_type, one.destination);
    const style = one.by === "alternate-exchange" ? "alternate" : "binding";
    const hasRoom = drawn.has(key) || drawn.size < FAN;
    if (!hasRoom || !meet(node, one.destination_type, one.destination, style, labelOf(one))) continue;
    drawn.add(key);
    if (one.properties_key) result.add(edgeKey(key, one.properties_key));
  }
  const { alternate } = graph.facts.exchange.get(node.name) ?? {};
  if (alternate) meet(node, "exchange", alternate, "alternate", "");
  graph.leftOut(node, bindings.total_count - result.size, node.layer + 1);
}

function meetDeadLetters(graph, node, meet) {
  const target = graph.facts.queue.get(node.name)?.deadLetters;
  if (!target) return;
  if (target.exchange) meet(node, "exchange", target.exchange, "dead-letter", target.key);
  // By the default exchange:
  else if (graph.facts.queue.has(target.key)) meet(node, "queue", target.key, "dead-letter", "");
}

function stepsBySource(route) {
  const found = new Map();
  for (const step of (route?.bindings ?? []).slice(0, MOST_NODES))
    found.set(step.source, [...(found.get(step.source) ?? []), step]);
  return found;
}

/** The routing key and the arguments of a binding. */
function labelOf(binding) {
  const table = Object.entries(binding.arguments ?? {});
  if (!table.length) return binding.routing_key ?? "";
  const result = table
    .map(([name, value]) => `${name}=${typeof value === "object" ? JSON.stringify(value) : value}`)
    .join(" ");
  return binding.routing_key ? `${binding.routing_key} ${result}` : result;
}

// ---- requests

function askedFor(vhost, exchange, end, signal) {
  const address = at`/api/exchanges/${vhost}/${exchangeInPath(exchange)}/bindings/`;
  return get(`${address}${end}`, { page: 1, page_size: ASKED }, { signal });
}

/** Types, alternate and dead-letter exchanges of the first exchanges and queues by name. */
async function factsOf(vhost, signal) {
  const list = (what, columns) =>
    get(at`/api/${what}/${vhost}`, { page: 1, page_size: LISTED, sort: "name", columns }, { signal });
  const [exchanges, queues] = await Promise.all([list("exchanges", EXCHANGE_COLUMNS), list("queues", QUEUE_COLUMNS)]);
  return {
    exchange: new Map(
      exchanges.items.map((one) => [
        one.name,
        { name: one.name, type: one.type, alternate: setFor(one, "alternate-exchange", "alternate-exchange") },
      ]),
    ),
    queue: new Map(
      queues.items.map((one) => [one.name, { name: one.name, type: one.type, deadLetters: deadLettersOf(one) }]),
    ),
    isPartial: exchanges.total_count > LISTED || queues.total_count > LISTED,
  };
}

function deadLettersOf(queue) {
  const exchange = setFor(queue, "x-dead-letter-exchange", "dead-letter-exchange");
  return exchange === undefined
    ? undefined
    : { exchange, key: setFor(queue, "x-dead-letter-routing-key", "dead-letter-routing-key") ?? "" };
}

/** The value of the argument, or of the policy. */
function setFor(object, argument, key) {
  return object.arguments?.[argument] ?? object.effective_policy_definition?.[key];
}
