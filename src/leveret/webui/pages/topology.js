// Topology of an exchange or a virtual host as SVG: layers from left to right, nodes as links, edges with routing keys.
//
// Each edge enters its node on a horizontal line of its own, below its routing keys, so that edges do not overlap.
// Edges to an earlier layer run below the picture; edges within a layer bend to the right.

import { fill, h, s } from "../dom.js";
import { number } from "../format.js";
import { problemBox } from "../notices.js";
import { poll } from "../poll.js";
import { link } from "../router.js";
import { exchangeLink, shownExchange } from "./exchange_links.js";
import { edgeKey, filteredTopologyOf, MOST_NODES, nodeKey, topologyOf, vhostTopologyOf } from "./topology_graph.js";

const WIDTH = 176; // of a node; all sizes are in pixels
const NAME_WIDTH = WIDTH - 28; // of a name in a node
const NAME_FONT = '600 13px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif'; // as in topology.css and app.css
const HEIGHT = 42;
const BETWEEN = [150, 196]; // minimum and maximum distance of layers
const BEND = 60; // width of the curved part of an edge; the rest is horizontal
const GAP = 16; // between nodes
const LINE = 16; // distance of incoming edges
const EDGE = 12; // margin
const LANE = 26; // distance of edges to an earlier layer
const ASIDE = 44; // width of an edge within a layer
const LETTER = 6.7; // width of a character of a routing key
const TIP = 8;
const RHYTHM = 6; // polls between two requests

const STYLES = { binding: "binding", alternate: "alternate exchange", "dead-letter": "dead-letter exchange" };

/** The whole virtual host if `exchange` is null. `mark` highlights the route of a response of the route tester. */
export function topologyPicture(vhost, exchange, signal) {
  const place = h("div", { class: "topology-scroll", tabindex: "0", role: "region", "aria-label": "Topology" });
  const legend = h("div", { class: "legend" });
  const note = h("p", { class: "faint" });
  const element = h(
    "section",
    { class: "card topology" },
    h("header", {}, h("h2", {}, "Topology"), legend),
    place,
    note,
  );
  let route = null;
  let filter = "";
  let shown = "";
  let turns = 0;
  let isWanted = true;

  async function asked() {
    isWanted = false;
    turns = 0;
    try {
      if (exchange !== null) return await topologyOf(vhost, exchange, route, signal);
      return await (filter ? filteredTopologyOf(vhost, filter, signal) : vhostTopologyOf(vhost, signal));
    } catch (problem) {
      isWanted = true;
      shown = "";
      throw problem;
    }
  }

  const look = poll(
    signal,
    async () => {
      turns += 1;
      if (!isWanted && turns < RHYTHM) return;
      const graph = await asked();
      const signature = `${graph.signature()}${JSON.stringify(route)}`;
      if (signature === shown) return; // keep focus and scroll position
      const isFirst = shown === "";
      shown = signature;
      const drawing = graph.nodes.size ? drawn(graph, vhost, exchange, route, place.clientWidth) : null;
      fill(place, drawing?.element);
      if (isFirst && drawing && drawing.start + 2 * WIDTH > place.clientWidth) place.scrollLeft = drawing.start - 40;
      fill(legend, legendOf(graph));
      fill(note, noteOf(graph, filter));
    },
    (problem) => fill(place, problemBox(problem)),
  );
  const refresh = () => {
    isWanted = true;
    look();
  };
  const mark = (answer) => {
    route = answer;
    refresh();
  };
  /** Draws only bindings that contain this text, in the picture of a virtual host. */
  const setFilter = (text) => {
    filter = text;
    refresh();
  };
  return { element, refresh, mark, setFilter };
}

function legendOf(graph) {
  const used = new Set([...graph.edges.values()].map((edge) => edge.style));
  return Object.entries(STYLES)
    .filter(([style]) => used.has(style))
    .map(([style, name]) =>
      h(
        "span",
        { class: "key" },
        s(
          "svg",
          { class: "line-key", viewBox: "0 0 26 8", "aria-hidden": "true" },
          s("path", { class: `edge ${style}`, d: "M0 4H26" }),
        ),
        name,
      ),
    );
}

function noteOf(graph, filter) {
  const none = filter
    ? `No bindings match “${filter}”. `
    : "No bindings yet: add a binding to an exchange to see it here. ";
  const remedy = filter ? "filter for a longer text" : "filter, or open an exchange to continue from there";
  return [
    graph.edges.size === 0 && none,
    graph.searched > 0 && `Only the first ${number(graph.searched)} bindings were searched. `,
    graph.isCut && `Only ${MOST_NODES} exchanges and queues are shown: ${remedy}. `,
    graph.facts.isPartial &&
      "This virtual host has many exchanges or queues: some alternate and dead-letter exchanges may be missing.",
  ];
}

// ---- layout

function laidOut(graph, window) {
  const layers = new Map();
  for (const node of graph.nodes.values())
    layers.set(node.layer, [...(layers.get(node.layer) ?? []), { ...node, entering: [] }]);
  const order = [...layers.keys()].sort((a, b) => a - b);
  const nodes = new Map([...layers.values()].flat().map((node) => [node.key, node]));
  const edges = [...graph.edges.values()].map((edge) => ({
    ...edge,
    from: nodes.get(edge.from),
    to: nodes.get(edge.to),
  }));
  const back = edges.filter((edge) => edge.to.layer < edge.from.layer);
  for (const edge of edges) if (edge.to.layer > edge.from.layer) edge.to.entering.push(edge);
  for (const node of nodes.values()) node.height = Math.max(HEIGHT, node.entering.length * LINE + 10);
  const between = betweenLayers(order.length, window);
  const heights = order.map((layer) => layers.get(layer).reduce((sum, node) => sum + node.height + GAP, -GAP));
  const height = Math.max(...heights);
  order.forEach((layer, column) => {
    let y = EDGE + (height - heights[column]) / 2;
    for (const node of layers.get(layer)) {
      node.x = EDGE + column * (WIDTH + between);
      node.y = y;
      y += node.height + GAP;
    }
  });
  const margin = edges.some((edge) => edge.from.layer === edge.to.layer && edge.to.layer === order.at(-1))
    ? ASIDE + WIDTH / 2
    : 0;
  for (const node of nodes.values()) node.entering.sort((a, b) => a.from.y - b.from.y);
  return {
    nodes,
    edges,
    back,
    flat: between - BEND,
    width: 2 * EDGE + order.length * (WIDTH + between) - between + margin,
    floor: EDGE + height,
  };
}

/** The distance of layers at which the whole picture fits, if possible. */
function betweenLayers(count, window) {
  const [least, most] = BETWEEN;
  const distance = (window - 2 * EDGE - count * WIDTH) / Math.max(count - 1, 1);
  return distance < least ? most : Math.min(distance, most);
}

// ---- drawing

function drawn(graph, vhost, exchange, route, window) {
  const { nodes, edges, back, flat, width, floor } = laidOut(graph, window);
  const way = wayOf(route);
  const height = floor + EDGE + back.length * LANE;
  const linesOf = (edge) => {
    if (edge.to.layer > edge.from.layer) return forward(edge, flat);
    return edge.to.layer === edge.from.layer ? aside(edge) : around(edge, floor + LANE * (back.indexOf(edge) + 1));
  };
  const element = s(
    "svg",
    {
      class: route ? "topology-picture routed" : "topology-picture",
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      "aria-label":
        exchange === null ? `Bindings in virtual host ${vhost}` : `Bindings of exchange ${shownExchange(exchange)}`,
    },
    edges.map((edge) => s("g", { class: way.has(edge.key) ? "taken" : "" }, linesOf(edge))),
    [...nodes.values()].map((node) => nodeOf(node, vhost, exchange, way)),
  );
  return { element, start: nodes.get(nodeKey("exchange", exchange))?.x ?? 0 };
}

/** Keys of the nodes and edges on the route. */
function wayOf(route) {
  const way = new Set();
  if (!route) return way;
  way.add(nodeKey("exchange", route.exchange));
  for (const step of route.bindings) {
    const [from, to] = [nodeKey("exchange", step.source), nodeKey(step.destination_type, step.destination)];
    way.add(from).add(to).add(edgeKey(from, to));
  }
  return way;
}

function forward(edge, length) {
  const { from, to } = edge;
  const [x1, y1] = [from.x + WIDTH, from.y + from.height / 2];
  const [x2, y2] = [to.x, to.y + (to.height * (to.entering.indexOf(edge) + 1)) / (to.entering.length + 1)];
  const flat = x2 - length;
  const bend = (flat - x1) / 2;
  return [
    s("path", {
      class: `edge ${edge.style}`,
      d: `M${x1} ${y1}C${x1 + bend} ${y1} ${flat - bend} ${y2} ${flat} ${y2}H${x2 - TIP}`,
    }),
    s("path", { class: "tip", d: `M${x2} ${y2}l-${TIP} -4v8z` }),
    keysOf(edge, (flat + x2 - TIP) / 2, y2 - 4, length - TIP),
  ];
}

function around(edge, lane) {
  const { from, to } = edge;
  const [x1, y1] = [from.x + WIDTH / 2, from.y + from.height];
  const [x2, y2] = [to.x + WIDTH / 2, to.y + to.height];
  const deep = (lane - (y1 + y2) / 8) / 0.75; // control point, so that the middle of the curve is on the lane
  return [
    s("path", { class: `edge ${edge.style}`, d: `M${x1} ${y1}C${x1} ${deep} ${x2} ${deep} ${x2} ${y2 + TIP}` }),
    s("path", { class: "tip", d: `M${x2} ${y2}l-4 ${TIP}h8z` }),
    keysOf(edge, (x1 + x2) / 2, lane - 4, WIDTH),
  ];
}

function aside(edge) {
  const { from, to } = edge;
  const x = from.x + WIDTH;
  const [y1, y2] = [from.y + from.height / 2 + 10, to.y + to.height / 2 - 10]; // a queue may dead-letter to itself
  const out = x + ASIDE / 0.75;
  return [
    s("path", { class: `edge ${edge.style}`, d: `M${x} ${y1}C${out} ${y1} ${out} ${y2} ${x + TIP} ${y2}` }),
    s("path", { class: "tip", d: `M${x} ${y2}l${TIP} -4v8z` }),
    keysOf(edge, x + ASIDE, (y1 + y2) / 2 + 4, WIDTH / 2),
  ];
}

function keysOf(edge, x, y, width) {
  if (!edge.labels.length) return null;
  const [first, ...others] = edge.labels;
  const rest = others.length ? ` +${others.length}` : "";
  return s(
    "text",
    { class: "keys-text", x, y, "text-anchor": "middle" },
    s("title", {}, edge.labels.join("\n")),
    cut(visible(first), Math.floor(width / LETTER) - rest.length) + rest,
  );
}

function cut(text, letters) {
  return text.length > letters ? `${text.slice(0, letters - 1)}…` : text;
}

/** Spaces at the ends are shown: SVG leaves them out. */
function visible(name) {
  return name.replace(/^\s+|\s+$/g, (spaces) => "␣".repeat(spaces.length));
}

const ruler = document.createElement("canvas").getContext("2d");

/** A name that fits its node. */
function fitting(name) {
  if (!ruler) return cutWithin(name, 16);
  ruler.font = NAME_FONT;
  for (let letters = name.length; letters > 4; letters -= 1) {
    const shown = cutWithin(name, letters);
    if (ruler.measureText(shown).width <= NAME_WIDTH) return shown;
  }
  return cutWithin(name, 4);
}

/** Shortens a name in the middle, because names of shards differ at the end. */
function cutWithin(text, letters) {
  const end = Math.floor(letters / 2) - 1;
  return text.length > letters ? `${text.slice(0, letters - end - 1)}…${text.slice(-end)}` : text;
}

function hintOf({ kind, type, isMissing }) {
  if (kind === "more") return "bindings";
  if (isMissing) return `no such ${kind}`;
  if (kind === "queue") return type === "stream" ? "stream" : "queue";
  return `${type ?? ""} exchange`.trim();
}

function nodeOf(node, vhost, exchange, way) {
  const { kind, x, y, height } = node;
  const isStart = kind === "exchange" && node.name === exchange;
  const name = kind === "more" ? `and ${node.count} more` : shownExchange(node.name);
  const hint = hintOf(node);
  const classes = ["node", kind, isStart && "start", node.isMissing && "missing", way.has(node.key) && "taken"]
    .filter(Boolean)
    .join(" ");
  const top = (height - HEIGHT) / 2;
  const look = [
    s("rect", { x, y, width: WIDTH, height, rx: kind === "queue" ? 5 : HEIGHT / 2 }),
    s(
      "svg",
      { x: x + 14, y, width: NAME_WIDTH, height },
      s("text", { class: "name-text", y: top + 19 }, fitting(visible(name))),
      s("text", { class: "hint", y: top + 33 }, hint),
    ),
    s(
      "title",
      {},
      kind === "more"
        ? `${node.count} more bindings of exchange ${shownExchange(node.name)} are not drawn`
        : `${hint} ${name}`,
    ),
  ];
  if (node.name === exchange && kind !== "queue") return s("g", { class: classes }, look);
  return s(
    "a",
    {
      class: classes,
      href: kind === "queue" ? link`/queues/${vhost}/${node.name}` : exchangeLink(vhost, node.name),
    },
    look,
  );
}
