// The latest log lines of a node, as they come.

import { path as at, get } from "../api.js";
import { fill, h, setText } from "../dom.js";
import { clockTime, plural } from "../format.js";
import { badge, pageHead } from "../layout.js";
import { showProblem } from "../notices.js";
import { poll } from "../poll.js";
import { isAdministrator, onlyAdministrators } from "./admin_frame.js";
import { nodeChoice } from "./node_history.js";

export const path = "/log";
export const under = "Nodes";
export const title = () => "Log";

const LEVELS = ["debug", "info", "warning", "error"];
const KINDS = { warning: "warn", error: "bad" };
const MOST = 1000; // as many as the broker keeps

export function show(place, _parameters, signal, user) {
  const head = pageHead("Log", "The latest lines of the broker's log, in memory. The log itself has all of them.");
  if (!isAdministrator(user)) {
    fill(place, head, onlyAdministrators(user, "Log lines"));
    return;
  }
  new LogView(place, head, signal);
}

class LogView {
  #lines = /** @type {any[]} */ ([]);
  #last = 0;
  #run = ""; // numbers of lines begin again with every run of the broker
  #names = /** @type {string[]} */ ([]);
  #name = "";

  constructor(place, head, signal) {
    this.signal = signal;
    this.trouble = h("div", {});
    this.level = h("select", { "aria-label": "Lowest level" }, [...LEVELS].map(levelOption));
    this.filter = h("input", { type: "search", placeholder: "Filter lines", "aria-label": "Filter lines" });
    this.node = h("span", {});
    this.count = h("span", { class: "faint" });
    this.list = h("ol", { class: "log", "aria-label": "Log lines", tabindex: "0" });
    this.level.addEventListener("change", () => this.#draw());
    this.filter.addEventListener("input", () => this.#draw());
    const tools = h("div", { class: "table-tools" }, this.filter, this.level, this.node, this.count);
    fill(place, head, this.trouble, h("div", { class: "card table log-card" }, tools, this.list));
    this.refresh = poll(
      signal,
      () => this.#load(),
      (problem) => showProblem(this.trouble, problem),
    );
  }

  async #load() {
    if (!this.#name) await this.#findNodes();
    const query = { after: this.#last || undefined, run: this.#run || undefined };
    const answer = await get(at`/api/nodes/${this.#name}/log`, query, { signal: this.signal });
    fill(this.trouble);
    const isSameRun = answer.run === this.#run;
    this.#lines = [...(isSameRun ? this.#lines : []), ...answer.lines].slice(-MOST);
    [this.#last, this.#run] = [answer.last, answer.run];
    if (answer.lines.length > 0 || !isSameRun) this.#draw(answer.level);
  }

  async #findNodes() {
    const nodes = await get("/api/nodes", { columns: "name,running,mem_used" }, { signal: this.signal });
    this.#names = nodes.filter((one) => one.running && "mem_used" in one).map((one) => one.name);
    this.#name = this.#names[0];
    fill(
      this.node,
      nodeChoice(this.#names, this.#name, (name) => {
        [this.#name, this.#last, this.#run, this.#lines] = [name, 0, "", []];
        this.refresh();
      }),
    );
  }

  /** The latest line first. */
  #draw(logged = "") {
    const least = LEVELS.indexOf(this.level.value);
    const wanted = this.filter.value.toLowerCase();
    const shown = this.#lines.filter(
      (line) => LEVELS.indexOf(line.level) >= least && `${line.log} ${line.text}`.toLowerCase().includes(wanted),
    );
    fill(this.list, shown.toReversed().map(lineItem));
    if (!shown.length) fill(this.list, h("li", { class: "faint" }, "No lines match."));
    const note = logged && LEVELS.indexOf(logged) > 0 ? `, log level: ${logged}` : "";
    if (logged || !this.logged) this.logged = note;
    setText(this.count, `${plural(shown.length, "line")}${this.logged}`);
  }
}

function levelOption(level) {
  const name = level === "debug" ? "All levels" : level === "error" ? "Errors" : `${level} and above`;
  return h("option", { value: level }, name.charAt(0).toUpperCase() + name.slice(1));
}

function lineItem(line) {
  return h(
    "li",
    { class: `level-${line.level}` },
    h("time", { title: new Date(line.time).toISOString() }, clockTime(line.time)),
    badge(line.level, KINDS[line.level] ?? ""),
    h("span", { class: "log-name" }, line.log),
    h("span", { class: "text" }, line.text, line.has_trace && " (traceback in the log)"),
  );
}
