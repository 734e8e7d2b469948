// The history of one node: memory by kind, disk, CPU, journal, reads, event loop, file descriptors.

import { path as at, get } from "../api.js";
import { addedDetails, lineChart, pointsOf } from "../chart.js";
import { fill, fillFor, h } from "../dom.js";
import { byteRate, bytes, duration, isNumber, NONE, number } from "../format.js";
import { poll } from "../poll.js";
import { brokerRanges } from "../time_range.js";

const MEMORY = {
  Messages: ["queue_procs"],
  Definitions: ["definitions", "routes"],
  Connections: ["connections", "unread_output"],
  "In transit": ["unfinished_messages", "transactions", "uploads"],
};
const MEMORY_HELP = {
  Messages: "Messages in queues. A message in several queues counts in each, though they share its body.",
  Definitions: "Queues, exchanges, bindings, consumers and cached routes.",
  Connections: "Connections and channels, and output that clients have not read yet.",
  "In transit": "Partly received messages, open transactions, and uploads of Spark.",
  Other: "Other is what is not counted: Python itself, loaded modules, caches, memory not returned to the system.",
};

/** `name()` is the node to show; `refresh` loads it at once. */
export class NodeHistory {
  #charts = {
    memory: lineChart("Memory"),
    disk: lineChart("Free disk space"),
    cpu: lineChart("CPU (100 % is one core)"),
    lag: lineChart("Event loop lag"),
    operations: lineChart("Disk operations per second"),
    syncTime: lineChart("Mean time of a journal sync"),
    times: lineChart("Mean time of a journal write or disk read"),
    amounts: lineChart("Journal writes and disk reads"),
    files: lineChart("File descriptors and sockets"),
  };

  constructor(name, signal, whenFailed) {
    this.kinds = h("div", { class: "card memory-kinds" });
    const charts = Object.values(this.#charts).map((chart) => chart.element);
    this.element = h("div", { class: "stacked" }, this.kinds, h("div", { class: "charts" }, charts));
    this.refresh = poll(
      signal,
      async () => this.#show(await get(at`/api/nodes/${name()}`, brokerRanges.query("node_stats"), { signal })),
      whenFailed,
    );
  }

  #show(node) {
    const { age } = brokerRanges.current;
    const draw = (chart, series, show) => chart.draw(series, show, age);
    const value = (label, name) => ({ label, points: pointsOf(node[`${name}_details`]), now: node[name] });
    const speed = (label, name, factor = 1) => ({
      label,
      points: pointsOf(node[`${name}_details`], true).map(([time, each]) => [
        time,
        each === null ? null : each * factor,
      ]),
    });
    this.#showKinds(node);
    const charts = this.#charts;
    draw(charts.memory, memorySeries(node), bytes);
    draw(charts.disk, [value("Free", "disk_free")], bytes);
    draw(charts.cpu, [speed("CPU", "cpu_time", 1 / 10_000)], percent);
    draw(charts.lag, [value("Longest in the last minute", "loop_lag")], microseconds);
    const mean = (label, kind) => ({ label, points: meanTimes(node, kind) });
    draw(
      charts.operations,
      [
        speed("Journal writes", "io_write_count"),
        speed("Journal syncs", "io_sync_count"),
        speed("Reads", "io_read_count"),
      ],
      perSecond,
    );
    draw(charts.syncTime, [mean("Sync", "sync")], microseconds);
    draw(charts.times, [mean("Write", "write"), mean("Read", "read")], microseconds);
    draw(charts.amounts, [speed("Written", "io_write_bytes"), speed("Read", "io_read_bytes")], byteRate);
    draw(charts.files, [value("File descriptors", "fd_used"), value("Sockets", "sockets_used")], number);
  }

  /** The current memory by kind, and its share of the total. */
  #showKinds(node) {
    const kinds = Object.entries(MEMORY).map(([label, names]) => [label, sum(node, names)]);
    const counted = kinds.reduce((all, [, size]) => all + size, 0);
    const rows = [...kinds, ["Other", Math.max(node.mem_used - counted, 0)]];
    fillFor(this.kinds, [node.mem_used, rows], () => [
      h("h2", {}, "Memory by kind"),
      rows.map(([label, size]) =>
        h(
          "div",
          { class: "gauge" },
          h("span", { title: MEMORY_HELP[label] }, label),
          h("meter", { min: 0, max: node.mem_used, value: Math.min(size, node.mem_used), "aria-label": label }),
          h("span", { class: "faint" }, `${bytes(size)} (${Math.round((size / node.mem_used) * 100)} %)`),
        ),
      ),
      h(
        "p",
        { class: "faint" },
        `Total ${bytes(node.mem_used)}, the resident size of the process. ${MEMORY_HELP.Other}`,
      ),
    ]);
  }
}

function sum(node, names) {
  return names.reduce((all, name) => all + (node[`memory_${name}`] ?? 0), 0);
}

function memorySeries(node) {
  const total = { label: "Total", points: pointsOf(node.mem_used_details), now: node.mem_used };
  const kinds = Object.entries(MEMORY).map(([label, names]) => ({
    label,
    points: pointsOf(addedDetails(names.map((name) => node[`memory_${name}_details`]))),
    now: sum(node, names),
  }));
  return [total, ...kinds];
}

/** Microseconds per sync, write or read in each interval; a gap in intervals without one. */
function meanTimes(node, kind) {
  const counts = pointsOf(node[`io_${kind}_count_details`], true);
  const times = pointsOf(node[`io_${kind}_time_details`], true);
  return counts.map(([time, count], index) => [time, count ? (times[index]?.[1] ?? 0) / count : null]);
}

function percent(value) {
  return isNumber(value) ? `${value < 10 ? value.toFixed(1) : Math.round(value)} %` : NONE;
}

function perSecond(value) {
  return isNumber(value) ? `${value < 10 ? value.toFixed(1) : number(value)}/s` : NONE;
}

/** 80 µs, 1.2 ms, 15 ms, 1 s. */
function microseconds(value) {
  if (!isNumber(value)) return NONE;
  if (value > 0 && value < 1_000) return `${value < 10 ? value.toFixed(1) : Math.round(value)} µs`;
  return value < 10_000 ? `${(value / 1000).toFixed(1)} ms` : duration(value / 1_000_000);
}

/**
 * A select of nodes, hidden if there is only one.
 *
 * @param {string[]} names
 * @param {string} chosen
 * @param {(name: string) => void} choose
 */
export function nodeChoice(names, chosen, choose) {
  const select = h("select", { "aria-label": "Node", hidden: names.length < 2 });
  fill(
    select,
    names.map((name) => h("option", { value: name, selected: name === chosen }, name)),
  );
  select.addEventListener("change", () => choose(select.value));
  return select;
}
