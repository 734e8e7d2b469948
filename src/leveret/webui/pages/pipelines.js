// Spark queries that read from the broker, and their leases on messages of classic queues.

import { lagColumn } from "../amount.js";
import { path as at, get, remove } from "../api.js";
import { sparkline } from "../chart.js";
import { fill, h } from "../dom.js";
import { ago, bytes, duration, isNumber, number, plural, rate } from "../format.js";
import { badge, nameLink, pageHead, section } from "../layout.js";
import { notify, showProblem, undoable } from "../notices.js";
import { poll } from "../poll.js";
import { link } from "../router.js";
import { numeric, rowsSource, Table } from "../table.js";
import { Tiles } from "../tiles.js";
import { sparkSteps } from "./spark_steps.js";

export const path = "/pipelines";
export const nav = "Pipelines";
export const title = () => "Pipelines";

const RUNNING = ["running", "idle", "started"];
const OLD = 3600; // age of a lease in seconds from which it is highlighted

export async function find(text, signal) {
  const answer = await get(
    "/api/spark-queries",
    { page: 1, page_size: 12, name: text, sort: "name", columns: "name,state,vhost,id" },
    { signal },
  );
  return answer.items.map((one) => ({
    title: one.name,
    hint: `Spark query, ${one.state}`,
    address: addressOf(one).slice(1),
  }));
}

/** A query without a virtual host that the user sees has no page. */
function addressOf({ vhost, id }) {
  return vhost === null || vhost === undefined ? "#/pipelines" : link`/pipelines/${vhost}/${id}`;
}

export function stateKind(state) {
  return RUNNING.includes(state) || state === "stopped" ? "" : "warn";
}

export function show(place, _parameters, signal, user) {
  const tiles = new Tiles();
  const trouble = h("div", {});
  const first = h("div", {});
  const tables = h("div", { class: "stacked" });
  let known = { queries: [], leases: [] };
  const queries = queryTable(() => known.queries, signal);
  const leases = leaseTable(
    () => known.leases,
    signal,
    (lease) => release(lease, refresh),
  );
  const refresh = poll(
    signal,
    async () => {
      const [found, held] = await Promise.all([
        get("/api/spark-queries", undefined, { signal }),
        get("/api/leases", undefined, { signal }),
      ]);
      known = { queries: found, leases: held };
      const isEmpty = found.length + held.length === 0;
      fill(trouble);
      tiles.show(totalsOf(found, held));
      tiles.element.hidden = tables.hidden = isEmpty;
      if (!isEmpty) fill(first);
      else if (!first.hasChildNodes()) fill(first, sparkSteps(user));
      queries.refresh();
      leases.refresh();
    },
    (problem) => showProblem(trouble, problem),
  );
  tiles.element.hidden = tables.hidden = true;
  fill(tables, section("Spark queries", queries.element), section("Leases", leases.element));
  fill(
    place,
    pageHead("Pipelines", "Spark queries that read from this broker, and their lag."),
    trouble,
    tiles.element,
    first,
    tables,
  );
}

function totalsOf(queries, leases) {
  const running = queries.filter((one) => RUNNING.includes(one.state));
  const lags = running.map((one) => one.lag).filter(isNumber);
  return {
    "Running queries": number(running.length),
    "Largest lag": number(lags.length ? Math.max(...lags) : undefined),
    "Process rate": rate(running.reduce((sum, one) => sum + (one.rows_per_second ?? 0), 0)),
    "Leased messages": number(leases.reduce((sum, one) => sum + one.messages, 0)),
  };
}

function queryTable(rows, signal) {
  return new Table({
    columns: [
      {
        title: "Query",
        sort: "name",
        width: "name",
        value: ({ vhost, id, name }) => ({ vhost, id, name }),
        show: (query) => nameLink(addressOf(query), query.name),
      },
      {
        title: "State",
        sort: "state",
        width: "s",
        value: (row) => [row.state, row.error],
        show: ([state, error]) => badge(state, stateKind(state), error),
      },
      { title: "Sources", rank: 2, value: readsOf, show: readLinks },
      { title: "Sink", sort: "sink", rank: 4, value: (row) => row.sink ?? "–" },
      numeric("Input rate", "input_rows_per_second", rate, { rank: 3 }),
      numeric("Process rate", "rows_per_second", rate, { rank: 2 }),
      {
        title: "Recent rates",
        rank: 2,
        width: "m",
        value: (row) => [row.recent.map((one) => one.rows_per_second), row.name],
        show: ([values, name]) => sparkline(values, `Rows per second of ${name}`),
      },
      {
        title: "Last batch or error",
        rank: 4,
        width: "batch",
        value: (row) => row.error ?? lastBatch(row),
        show: (text) => h("span", { title: text }, text),
      },
      numeric("Last report", "silent_for", ago, {
        rank: 3,
        width: "m",
        value: (row) => Math.floor(row.silent_for),
      }),
      lagColumn(rows),
    ],
    source: rowsSource(async () => rows()),
    signal,
    sort: "lag",
    reverse: true,
    noun: "query",
    nouns: "queries",
    empty:
      "No Spark query reported in the last hour. Add the listener to your Spark session: " +
      "spark.streams.addListener(LeveretListener()).",
  });
}

function readsOf(row) {
  return row.sources.flatMap((source) =>
    source.reads.map((read) => [read.vhost ?? row.vhost, read.queue, read.lease !== undefined]),
  );
}

function readLinks(reads) {
  return reads.map(([vhost, queue, isLeased], number) => [
    number > 0 && ", ",
    vhost === null || vhost === undefined
      ? queue
      : nameLink(isLeased ? link`/queues/${vhost}/${queue}` : link`/streams/${vhost}/${queue}`, queue),
  ]);
}

function lastBatch(row) {
  if (!isNumber(row.batch)) return "–";
  return `${number(row.batch)}: ${plural(row.rows ?? 0, "row")} in ${duration((row.batch_ms ?? 0) / 1000)}`;
}

function leaseTable(rows, signal, release) {
  return new Table({
    columns: [
      { title: "Consumer", sort: "consumer", width: "name", value: (row) => row.consumer },
      {
        title: "Queue",
        sort: "queue",
        value: (row) => [row.vhost, row.queue],
        show: ([vhost, queue]) => nameLink(link`/queues/${vhost}/${queue}`, queue),
      },
      { title: "Vhost", sort: "vhost", rank: 3, width: "s", value: (row) => row.vhost },
      numeric("Lease", "lease", number, { rank: 2 }),
      numeric("Messages", "messages", number, { rank: 2 }),
      numeric("Size", "bytes", bytes, { rank: 2 }),
      numeric("Age", "age", shownAge, { rank: 2, width: "m", value: (row) => Math.floor(row.age) }),
      {
        title: "",
        width: "action",
        value: ({ vhost, queue, consumer, lease, messages }) => ({ vhost, queue, consumer, lease, messages }),
        show: (held) =>
          h("button", { type: "button", class: "in-row danger", onclick: () => release(held) }, "Release"),
      },
    ],
    source: rowsSource(
      async () => rows(),
      (row) => `${row.consumer} ${row.queue}`,
    ),
    signal,
    sort: "age",
    reverse: true,
    noun: "lease",
    empty: "No leases. Spark leases messages when it reads a classic queue.",
  });
}

function shownAge(age) {
  return age > OLD ? badge(duration(age), "warn") : duration(age);
}

function release(lease, changed) {
  undoable(
    `${plural(lease.messages, "message")} leased by ${lease.consumer} will be returned to queue ${lease.queue}, ` +
      "and processed twice if the query is still working on them,",
    async () => {
      const query = new URLSearchParams({ queue: lease.queue, consumer: lease.consumer, lease: lease.lease });
      const answer = await remove(`${at`/api/pipeline/${lease.vhost}/leases`}?${query}`);
      notify(`${plural(answer.released, "message")} returned to queue ${lease.queue}.`);
    },
    changed,
  );
}
