// One Spark query: its graph, rates, lag, batch times, state and error.

import { amount } from "../amount.js";
import { path as at, get } from "../api.js";
import { lineChart } from "../chart.js";
import { fill, fillFor, h } from "../dom.js";
import { externalLink } from "../external_link.js";
import { facts } from "../facts.js";
import { ago, bytes, duration, isNumber, number, rate } from "../format.js";
import { badge, objectHead } from "../layout.js";
import { endTrouble, problemBox, showTrouble } from "../notices.js";
import { poll } from "../poll.js";
import { Tiles } from "../tiles.js";
import { stateKind } from "./pipelines.js";
import { queryFlow } from "./query_flow.js";

export const path = "/pipelines/:vhost/:id";
export const under = "Pipelines";
export const title = ({ id }) => id;

const WHOLE = "triggerExecution"; // Spark's name of the duration of the whole batch

export function show(place, { vhost, id }, signal) {
  const view = new View(id);
  poll(
    signal,
    async () => view.show(await get(at`/api/spark-queries/${vhost}/${id}`, undefined, { signal })),
    (problem) => showTrouble(view.trouble, problem, "All pipelines", "#/pipelines"),
  );
  fill(place, view.head, view.trouble, view.error, view.tiles.element, view.flow, view.charts, view.parts, view.facts);
}

class View {
  constructor(id) {
    this.name = h("span", {}, id);
    this.about = h("span", {});
    this.spark = h("span", {});
    this.head = objectHead(this.name, this.about, this.spark);
    this.trouble = h("div", {});
    this.error = h("div", {});
    this.tiles = new Tiles();
    this.tiles.element.classList.add("eight");
    this.graph = h("div", {});
    this.flow = h("section", { class: "card" }, h("h2", {}, "Graph"), this.graph);
    this.rates = lineChart("Rows per second");
    this.lag = lineChart("Lag");
    this.times = lineChart("Batch time");
    this.state = lineChart("State");
    this.charts = h("div", { class: "charts" }, this.rates.element, this.lag.element, this.times.element);
    this.charts.append(this.state.element);
    this.parts = h("div", { class: "charts" });
    this.facts = h("div", {});
  }

  show(query) {
    endTrouble(this.trouble);
    fillFor(this.name, query.name, () => query.name);
    fillFor(this.about, [query.state, query.vhost, query.user], () => [
      badge(query.state, stateKind(query.state)),
      ` Spark query in virtual host ${query.vhost}, reported by ${query.user}`,
    ]);
    fillFor(this.spark, query.spark_ui, () => externalLink(query.spark_ui, "Open Spark UI"));
    fillFor(this.error, query.error, () => query.error && problemBox({ title: "Query failed", reason: query.error }));
    this.tiles.show(tilesOf(query));
    fillFor(this.graph, [query.sources, query.steps, query.sink, query.vhost], () => queryFlow(query));
    this.draw(query);
    fillFor(this.parts, [query.duration_ms, query.state_operators, query.counts], () => cardsOf(query));
    fillFor(this.facts, [query.sources, query.at, query.run_id], () => detailsOf(query));
  }

  draw(query) {
    const series = (label, field, unit = 1) => ({ label, points: pointsOf(query.recent, field, unit) });
    this.rates.draw([series("Input", "input_rows_per_second"), series("Processed", "rows_per_second")], rate);
    this.lag.draw([series("Messages", "lag")]);
    this.times.draw([series("Batch", "batch_ms", 1 / 1000)], batchTime);
    this.state.element.hidden = !isNumber(query.state_rows);
    this.charts.classList.toggle("four", isNumber(query.state_rows));
    this.state.draw([series("Rows", "state_rows")]);
  }
}

function pointsOf(recent, field, unit) {
  return recent.filter((one) => isNumber(one[field])).map((one) => [one.at * 1000, one[field] * unit]);
}

/** 850 ms, 1.2 s, 12 s: one digit more than elsewhere, because most batches take a few seconds. */
function batchTime(seconds) {
  return isNumber(seconds) && seconds >= 1 && seconds < 10 ? `${seconds.toFixed(1)} s` : duration(seconds);
}

function tilesOf(query) {
  return {
    Lag: number(query.lag),
    "Input rate": rate(query.input_rows_per_second),
    "Process rate": rate(query.rows_per_second),
    Batch: number(query.batch),
    "Batch time": batchTime(isNumber(query.batch_ms) ? query.batch_ms / 1000 : undefined),
    "Rows read": number(query.rows_total),
    "State rows": number(query.state_rows),
    "Last report": ago(Math.floor(query.silent_for)),
  };
}

function cardsOf(query) {
  const times = Object.entries(query.duration_ms).sort(([, a], [, b]) => b - a);
  const whole = Math.max(query.duration_ms[WHOLE] ?? 0, ...times.map(([, value]) => value), 1);
  const counts = Object.entries(query.counts ?? {});
  const rows = Math.max(...counts.map(([, value]) => value), 1);
  return [
    times.length > 0 &&
      card(
        "Last batch",
        times.map(([name, value]) => [name, amount(value / whole, batchTime(value / 1000))]),
      ),
    counts.length > 0 &&
      card(
        "Rows since the start",
        counts.map(([name, value]) => [name, amount(value / rows, number(value))]),
      ),
    query.state_operators.length > 0 &&
      card(
        "State",
        query.state_operators.map((one) => [
          one.name,
          [
            `${number(one.rows)} rows, ${bytes(one.memory_bytes)} `,
            one.late_rows > 0 && badge(`${number(one.late_rows)} late rows dropped`, "warn"),
          ],
        ]),
      ),
  ];
}

function card(heading, parts) {
  return h(
    "section",
    { class: "card" },
    h("h2", {}, heading),
    h(
      "dl",
      { class: "parts" },
      parts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
    ),
  );
}

function detailsOf(query) {
  const places = query.sources.flatMap((source) =>
    source.reads.map((read) => [
      read.queue,
      read.lease === undefined
        ? `next offset ${number(read.offset)}`
        : `lease ${number(read.lease)} of ${read.consumer}`,
    ]),
  );
  return h(
    "details",
    { class: "facts card" },
    h("summary", {}, "Offsets, leases and IDs"),
    h(
      "dl",
      {},
      places.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
      facts({ "Batch started": query.at, "Query ID": query.id, "Run ID": query.run_id }),
    ),
  );
}
