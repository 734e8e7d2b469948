// All queues.

import { get } from "../api.js";
import { pointsOf, sparkline } from "../chart.js";
import { fill, h } from "../dom.js";
import { bytes, duration, isNumber, number, rate } from "../format.js";
import { badge, button, pageHead } from "../layout.js";
import { finder, listAddress, listTable, NODE, nameColumn, VHOST } from "../list_page.js";
import { rateSparkline } from "../rate_sparkline.js";
import { link } from "../router.js";
import { RowSelection } from "../row_selection.js";
import { numeric } from "../table.js";
import { ValueHistory } from "../value_history.js";
import { keptVhost } from "../vhosts.js";
import { stateBadge } from "./connection_format.js";
import { firstSteps } from "./first_steps.js";
import { featuresOf } from "./queue_features.js";
import { addQueue } from "./queue_new.js";
import { MOST_SELECTED, queueActions } from "./queue_selection.js";
import { QueueTotals } from "./queue_totals.js";

export { addQueue };

export const path = "/queues";
export const nav = "Queues";
export const title = () => "Queues";

const COLUMNS =
  "name,vhost,node,type,durable,auto_delete,exclusive,arguments,state,policy,operator_policy," +
  "effective_policy_definition,consumers,messages,messages_ready,messages_unacknowledged,message_bytes,memory," +
  "messages_details,oldest_message_age,drain_estimate,message_stats.publish_details," +
  "message_stats.deliver_get_details,message_stats.ack_details";

const SAMPLES = { lengths_age: 300, lengths_incr: 5, msg_rates_age: 300, msg_rates_incr: 10 };
const FEW = 500; // queues

export const queueAddress = (vhost, name) => link`/queues/${vhost}/${name}`;

export const find = finder("queues", "name,vhost", ({ vhost, name }) => ({
  title: name,
  hint: `queue in ${vhost}`,
  address: queueAddress(vhost, name).slice(1),
}));

export function show(place, _parameters, signal, user) {
  const depths = new Depths();
  const totals = new QueueTotals();
  const changed = () => {
    selection.clear();
    table.refresh();
  };
  const actions = queueActions(changed, () => selection.clear());
  let tooMany = 0; // queues that match, if not all of them were selected
  const selection = new RowSelection({
    keyOf,
    nameOf: (row) => `queue ${row.name}`,
    loadAll: async () => {
      const { items, filtered_count: count } = await matchingQueues(table.question);
      tooMany = count > items.length ? count : 0;
      return items;
    },
    whenChanged: (rows) => {
      if (!rows.length) tooMany = 0;
      actions.show(rows, tooMany);
    },
    redraw: () => table.redraw(),
  });
  const noted = (row) => {
    depths.note(row);
    selection.note(row);
  };
  const table = listTable({
    columns: [selection.column, ...columns(depths)],
    source: queueSource(noted, totals),
    signal,
    id: "queues",
    canRegex: true,
    noun: "queue",
    emptiness: keptVhost,
    empty: (vhost) => firstIn(vhost, user, signal),
  });
  table.whenFiltered = () => selection.clear(); // actions apply to rows that the user can see
  table.tools.after(actions.element);
  fill(place, pageHead("Queues", totals.element, button("Add queue", addQueue, "strong")), table.element);
}

/** The first page of the queues that match the filter. */
function matchingQueues(question) {
  return get(listAddress("queues"), { ...question, page: 1, page_size: MOST_SELECTED, columns: COLUMNS });
}

/** First steps with the address of the broker. */
function firstIn(vhost, user, signal) {
  const place = h("div", {});
  const showSteps = (overview) => fill(place, firstSteps(user, overview, addQueue, vhost));
  get("/api/overview", { columns: "listeners" }, { signal }).then(showSteps, () => showSteps());
  return place;
}

function columns(depths) {
  const narrow = { width: "xs" };
  return [
    nameColumn(queueAddress),
    VHOST,
    NODE,
    { title: "Type", sort: "type", rank: 3, width: "qtype", value: (row) => row.type },
    {
      title: "Features",
      rank: 2,
      width: "features",
      value: (row) => [featuresOf(row), row.state],
      show: ([features, state]) => featureBadges(features, state),
    },
    { title: "State", sort: "state", rank: 5, width: "s", value: (row) => row.state, show: stateBadge },
    numeric("Ready", "messages_ready", number, narrow),
    numeric("Unacked", "messages_unacknowledged", number, { ...narrow, rank: 2 }),
    numeric("Total", "messages", number, { ...narrow, rank: 5 }),
    {
      title: "Last 5 min",
      rank: 3,
      width: "spark",
      value: (row) => [depths.of(row), row.name],
      show: ([values, name]) => sparkline(values, `Messages in ${name}`),
    },
    {
      title: "Rates",
      rank: 4,
      width: "spark",
      value: (row) => [...ratesOf(row), row.name],
      show: ([incoming, outgoing, name]) => rateSparkline(incoming, outgoing, `Publish and deliver rates of ${name}`),
    },
    numeric("Publish rate", "message_stats.publish_details.rate", rate, { ...narrow, rank: 2 }),
    numeric("Deliver rate", "message_stats.deliver_get_details.rate", rate, { ...narrow, rank: 2 }),
    numeric("Ack rate", "message_stats.ack_details.rate", rate, { ...narrow, rank: 5 }),
    numeric("Consumers", "consumers", number),
    numeric("Oldest", "oldest_message_age", duration, { rank: 3, width: "age" }),
    DRAINS_IN,
    numeric("Size", "message_bytes", bytes, { rank: 5 }),
    numeric("Memory", "memory", bytes, { rank: 5 }),
  ];
}

export const DRAINS_IN = numeric("Drains in", "drain_estimate", ([seconds, messages]) => drain(seconds, messages), {
  rank: 3,
  width: "age",
  value: (row) => [row.drain_estimate, row.messages],
});

/** Publish and deliver rates over time; empty without samples. */
function ratesOf(row) {
  return ["publish_details", "deliver_get_details"].map((name) => pointsOf(row.message_stats?.[name], true));
}

/** Requests samples only if there are few queues: those of thousands take the broker seconds. */
function queueSource(noted, totals) {
  /** @type {boolean | null} */
  let isFew = null; // null before the first response
  return async (question, signal) => {
    const ask = (samples) => get(listAddress("queues"), { ...question, columns: COLUMNS, ...samples }, { signal });
    let answer = await ask(isFew ? SAMPLES : {});
    if (isFew === null && answer.total_count <= FEW) answer = await ask(SAMPLES);
    isFew = answer.total_count <= FEW;
    for (const row of answer.items) noted(row);
    totals.show(answer, question, signal).catch(() => {}); // the list matters more
    return answer;
  };
}

/** Recent queue lengths: the broker's samples, or the values seen while the page is open. */
class Depths {
  #seen = new ValueHistory();

  note(row) {
    this.#seen.note(keyOf(row), row.messages);
  }

  of(row) {
    const samples = row.messages_details?.samples;
    return samples ? samples.map((one) => one.sample).reverse() : this.#seen.of(keyOf(row));
  }
}

const keyOf = (row) => JSON.stringify([row.vhost, row.name]);

export function drain(seconds, messages) {
  if (messages === 0) return "empty";
  return isNumber(seconds) ? duration(seconds) : "–";
}

/** Briefly, with the full texts in the title. A state other than running comes first. */
function featureBadges(features, state) {
  return h(
    "span",
    { title: features.map((one) => one.text).join(", ") },
    state && state !== "running" && badge(state, "warn"),
    features.map((one) => badge(one.brief)),
  );
}
