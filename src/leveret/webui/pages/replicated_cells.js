// Several replicated cells: their members on all nodes with hand-over, the engine, and the nodes with their resources.

import { fill, fillFor, h } from "../dom.js";
import { NONE } from "../format.js";
import { badge, section } from "../layout.js";
import { rowsSource, Table } from "../table.js";
import { Tiles } from "../tiles.js";
import { memberColumns, notAnswering, SERVER_COLUMNS, TAKE_OVER_COLUMNS } from "./cell_tables.js";
import { nodeFacts } from "./node_card.js";

const NEEDED = 3; // members that are up to date, so that a cell survives a failure after one was stopped

export class ReplicatedCells {
  #state = /** @type {any} */ (null); // of the first cell
  #cells = /** @type {any[]} */ ([]);
  #tables = /** @type {Table[]} */ ([]);

  constructor(content, user, signal) {
    this.user = user;
    this.signal = signal;
    this.content = content;
    this.warnings = h("div", {});
    this.tiles = new Tiles("Cells with a leader", "Nodes running", "Engine");
    this.nodes = h("div", { class: "charts" });
  }

  show(state, cells, nodes) {
    this.#state = state;
    this.#cells = cells;
    if (!this.#tables.length) this.#open();
    fillFor(this.warnings, [state.engine.answering, cells.map(trouble)], () => warnings(state, cells));
    this.tiles.show({
      "Cells with a leader": `${cells.filter((cell) => cell.leader).length} of ${cells.length}`,
      "Nodes running": `${nodes.filter((node) => node.running).length} of ${nodes.length}`,
      Engine: state.engine.answering ? "up" : "down",
    });
    fillFor(this.nodes, nodes, () => nodes.map(nodeCard));
    for (const table of this.#tables) table.refresh();
  }

  #open() {
    const members = this.#table("member", () => memberRows(this.#cells), memberColumns(this.user, true));
    const servers = this.#table("engine server", () => this.#state.engine.servers, SERVER_COLUMNS);
    const takeOvers = this.#table("take-over", () => this.#state.take_overs, TAKE_OVER_COLUMNS);
    fill(
      this.content,
      this.warnings,
      this.tiles.element,
      section("Members", members),
      section(`Engine servers, with the log of ${this.#state.cell}`, servers),
      section(`Take-overs of ${this.#state.cell}`, takeOvers),
      this.nodes,
    );
  }

  #table(noun, rows, columns) {
    const table = new Table({
      columns,
      source: rowsSource(async () => rows()),
      signal: this.signal,
      noun,
      toolsFrom: Infinity,
      empty: `No ${noun}s are known yet.`,
    });
    this.#tables.push(table);
    return table.element;
  }
}

/** A cell whose leader does not answer has one row. */
function memberRows(cells) {
  const unknown = ({ problem }) => [{ name: NONE, role: "no leader", connected: false, problem }];
  return cells.flatMap((cell) =>
    (cell.members.length ? cell.members : unknown(cell)).map((member) => ({ ...member, cell: cell.cell })),
  );
}

function trouble({ cell, members, problem }) {
  if (problem) return `${cell}: ${problem}`;
  const ready = members.filter((member) => member.up_to_date).length;
  return ready < NEEDED && `${cell}: ${ready} of ${members.length} members are up to date, ${NEEDED} are needed`;
}

function warnings(state, cells) {
  if (!state.engine.answering) return notAnswering();
  const troubles = cells.map(trouble).filter(Boolean);
  if (!troubles.length) return null;
  return h(
    "div",
    { class: "findings", role: "status" },
    h("strong", {}, "Some cells may not survive another failure"),
    troubles.map((one) => h("p", {}, one)),
  );
}

/** Only leaders report resources. */
function nodeCard(node) {
  const led = (node.cells ?? []).filter((each) => each.role === "leader").map((each) => each.cell);
  return h(
    "section",
    { class: "card node", "aria-label": node.name },
    h("h2", {}, led.length ? `Leads ${led.join(", ")}` : "Leads no cell"),
    "mem_used" in node ? nodeFacts(node) : h("p", { class: "name" }, node.name),
    !node.running && badge("not responding", "warn"),
  );
}
