// The nodes of a cell: roles and lag, servers of the engine, take-overs; and handing over. Or those of several cells,
// or the single node.

import { get } from "../api.js";
import { fill, fillFor, h, setText } from "../dom.js";
import { bytes, duration, number, plural } from "../format.js";
import { badge, emptyCard, pageHead, section } from "../layout.js";
import { showProblem } from "../notices.js";
import { poll } from "../poll.js";
import { rowsSource, Table } from "../table.js";
import { Tiles } from "../tiles.js";
import { brokerRanges } from "../time_range.js";
import { isAdministrator } from "./admin_frame.js";
import { memberColumns, notAnswering, SERVER_COLUMNS, TAKE_OVER_COLUMNS } from "./cell_tables.js";
import { MAY_NOT_SEE, maySeeNodes, nodeFacts } from "./node_card.js";
import { NodeHistory, nodeChoice } from "./node_history.js";
import { ReplicatedCells } from "./replicated_cells.js";

export const path = "/nodes";
export const nav = "Nodes";
export const title = () => "Nodes";

export function show(place, _parameters, signal, user) {
  const trouble = h("div", {});
  const content = h("div", { class: "stacked" });
  if (!maySeeNodes(user)) {
    fill(place, pageHead("Nodes"), h("section", { class: "card" }, h("p", {}, MAY_NOT_SEE)));
    return;
  }
  const history = new HistorySection(signal, trouble);
  const log = isAdministrator(user) && h("a", { class: "button", href: "#/log" }, "Log");
  fill(place, pageHead("Nodes", null, ...(log ? [log] : [])), trouble, content, history.element);
  /** @type {CellView | null} */
  let cell = null;
  /** @type {ReplicatedCells | null} */
  let cells = null;
  poll(
    signal,
    async () => {
      const nodes = await get("/api/nodes", undefined, { signal });
      if (nodes[0].cells) {
        const [state, rows] = await Promise.all([
          get("/api/cluster", undefined, { signal }),
          get("/api/cluster/cells", undefined, { signal }),
        ]);
        cells ??= new ReplicatedCells(content, user, signal);
        cells.show(state, rows, nodes);
      } else if (nodes.length > 1 && nodes[0].cell) {
        showCells(content, nodes);
      } else if (!nodes[0].role) {
        showSingle(content, nodes[0]);
      } else {
        const state = await get("/api/cluster", undefined, { signal });
        cell ??= new CellView(content, user, signal);
        cell.show(state, nodes[0]);
      }
      fill(trouble);
      history.offer(nodes.filter((node) => node.running && "mem_used" in node).map((node) => node.name));
    },
    (problem) => showProblem(trouble, problem),
  );
}

/** The charts of one node; of several cells, a node can be chosen. */
export class HistorySection {
  #name = "";
  #history = /** @type {NodeHistory | null} */ (null);

  constructor(signal, trouble) {
    this.signal = signal;
    this.trouble = trouble;
    this.element = h("div", { class: "stacked" });
  }

  offer(names) {
    if (!names.includes(this.#name)) this.#name = names[0] ?? "";
    fillFor(this.element, names, () => {
      if (!this.#name) return null;
      const failed = (problem) => showProblem(this.trouble, problem);
      this.#history ??= new NodeHistory(() => this.#name, this.signal, failed);
      const refresh = () => this.#history?.refresh();
      const select = nodeChoice(names, this.#name, (name) => {
        this.#name = name;
        refresh();
      });
      return section("History", this.#history.element, select, brokerRanges.buttons(refresh));
    });
  }
}

/** Several cells on one machine: one node each. */
function showCells(content, nodes) {
  fillFor(content, nodes, () =>
    h(
      "div",
      { class: "charts" },
      nodes.map((node) =>
        h(
          "section",
          { class: "card node", "aria-label": node.name },
          h("h2", {}, `Cell ${node.cell}`),
          node.running ? nodeFacts(node) : [h("p", { class: "name" }, node.name), badge("not responding", "warn")],
        ),
      ),
    ),
  );
}

function showSingle(content, node) {
  fillFor(content, node, () => [
    h("div", { class: "card node" }, h("h2", {}, "Node"), nodeFacts(node)),
    emptyCard(
      "This broker is a single node",
      h("p", {}, "Several nodes with a replicated journal are a cell: if one fails, another one takes over."),
      h("pre", { tabindex: "0" }, "leveret serve --cluster nats://a:4222,nats://b:4222,nats://c:4222"),
    ),
  ]);
}

class CellView {
  #state = /** @type {any} */ (null);
  #tables = /** @type {Table[]} */ ([]);

  constructor(content, user, signal) {
    this.content = content;
    this.user = user;
    this.signal = signal;
    this.warnings = h("div", {});
    this.tiles = new Tiles("Cell", "Leader", "Leading for", "Epoch", "Members connected", "Engine");
    this.log = h("p", { class: "faint" });
    this.leader = h("div", { class: "card node" });
  }

  show(state, leader) {
    this.#state = state;
    if (!this.#tables.length) this.#open();
    const { members, engine, log } = state;
    const problems = members.filter((one) => one.problem).map((one) => `${one.name}: ${one.problem}`);
    fillFor(this.warnings, [engine.answering, state.quorum_critical, problems], () => warnings(state, problems));
    this.tiles.show({
      Cell: state.cell,
      Leader: state.leader,
      "Leading for": duration(Math.max(Date.now() / 1000 - state.leader_since, 0)),
      Epoch: number(state.epoch),
      "Members connected": `${members.filter((one) => one.connected).length} of ${members.length}`,
      Engine: engine.answering ? "up" : "down",
    });
    setText(this.log, log ? logText(log) : "");
    fillFor(this.leader, leader, () => [h("h2", {}, "Leader"), nodeFacts(leader)]);
    for (const table of this.#tables) table.refresh();
  }

  #open() {
    const members = this.#table("member", (state) => state.members, memberColumns(this.user));
    const servers = this.#table("engine server", (state) => state.engine.servers, SERVER_COLUMNS);
    const takeOvers = this.#table("take-over", (state) => state.take_overs, TAKE_OVER_COLUMNS);
    fill(
      this.content,
      this.warnings,
      this.tiles.element,
      section("Members", members),
      section("Engine servers", [servers, this.log]),
      section("Take-overs", takeOvers),
      this.leader,
    );
  }

  #table(noun, rowsOf, columns) {
    const table = new Table({
      columns,
      source: rowsSource(async () => rowsOf(this.#state)),
      signal: this.signal,
      noun,
      toolsFrom: Infinity,
      empty: `No ${noun}s are known yet.`,
    });
    this.#tables.push(table);
    return table.element;
  }
}

function warnings(state, problems) {
  if (!state.engine.answering) return notAnswering();
  if (!state.quorum_critical) return null;
  return h(
    "div",
    { class: "findings", role: "status" },
    h("strong", {}, "The cell may not survive another failure"),
    h("p", {}, state.quorum_critical),
    problems.map((one) => h("p", {}, one)),
  );
}

function logText(log) {
  const records = number(log.last - log.first + 1);
  const size = `${bytes(log.bytes)} of at most ${bytes(log.max_bytes)}`;
  return `The replicated log has ${records} records, ${size}, in ${plural(log.replicas, "copy", "copies")}.`;
}
