// All queues.

import { path as at, get, put } from "../api.js";
import { pointsOf, sparkline } from "../chart.js";
import { fill, h } from "../dom.js";
import { duration, isNumber, number, rate } from "../format.js";
import { check, choice, field, textInput } from "../forms.js";
import { button, pageHead } from "../layout.js";
import {
  additionDialog,
  finder,
  listAddress,
  listTable,
  nameColumn,
  refuseExisting,
  VHOST,
  vhostField,
} from "../list_page.js";
import { rateSparkline } from "../rate_sparkline.js";
import { link } from "../router.js";
import { numeric } from "../table.js";
import { ValueHistory } from "../value_history.js";
import { keptVhost } from "../vhosts.js";
import { firstSteps } from "./first_steps.js";
import { mayReadTraces } from "./traces.js";

export const path = "/queues";
export const nav = "Queues";
export const title = () => "Queues";

const COLUMNS =
  "name,vhost,type,durable,state,policy,consumers,messages,messages_ready,messages_unacknowledged," +
  "messages_details,oldest_message_age,drain_estimate,message_stats.publish_details," +
  "message_stats.deliver_get_details";

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
  const table = listTable({
    columns: columns(depths),
    source: queueSource(depths),
    signal,
    noun: "queue",
    emptiness: keptVhost,
    empty: (vhost) => firstIn(vhost, user, signal),
  });
  const traces = mayReadTraces(user) && h("a", { class: "button", href: "#/traces" }, "Traces");
  fill(place, pageHead("Queues", null, traces, button("Add queue", addQueue, "strong")), table.element);
}

/** First steps with the address of the broker. */
function firstIn(vhost, user, signal) {
  const place = h("div", {});
  const showSteps = (overview) => fill(place, firstSteps(user, overview, addQueue, vhost));
  get("/api/overview", { columns: "listeners" }, { signal }).then(showSteps, () => showSteps());
  return place;
}

function columns(depths) {
  return [
    nameColumn(queueAddress),
    VHOST,
    { title: "State", sort: "state", rank: 2, width: "state", value: (row) => [row.state, row.type], show: badges },
    numeric("Ready", "messages_ready", number),
    numeric("Unacked", "messages_unacknowledged", number, { rank: 2 }),
    {
      title: "Last 5 min",
      rank: 2,
      width: "m",
      value: (row) => [depths.of(row), row.name],
      show: ([values, name]) => sparkline(values, `Messages in ${name}`),
    },
    {
      title: "Rates",
      rank: 4,
      width: "m",
      value: (row) => [...ratesOf(row), row.name],
      show: ([incoming, outgoing, name]) => rateSparkline(incoming, outgoing, `Publish and deliver rates of ${name}`),
    },
    numeric("Publish rate", "message_stats.publish_details.rate", rate, { rank: 2 }),
    numeric("Deliver rate", "message_stats.deliver_get_details.rate", rate, { rank: 2 }),
    numeric("Consumers", "consumers", number, { rank: 3 }),
    numeric("Oldest", "oldest_message_age", duration, { rank: 3, width: "age" }),
    DRAINS_IN,
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
function queueSource(depths) {
  /** @type {boolean | null} */
  let isFew = null; // null before the first response
  return async (question, signal) => {
    const ask = (samples) => get(listAddress("queues"), { ...question, columns: COLUMNS, ...samples }, { signal });
    let answer = await ask(isFew ? SAMPLES : {});
    if (isFew === null && answer.total_count <= FEW) answer = await ask(SAMPLES);
    isFew = answer.total_count <= FEW;
    for (const row of answer.items) depths.note(row);
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

function badges([state, type]) {
  const isOrdinary = !type || type === "classic"; // for other types the type is shown instead of the state
  return [
    (isOrdinary || state !== "running") &&
      h("span", { class: `badge ${state === "running" ? "" : "warn"}` }, state ?? "–"),
    !isOrdinary && h("span", { class: "badge" }, type),
  ];
}

/** Opens the dialog for a new queue. */
export async function addQueue() {
  const fields = [
    field("Name", textInput("name", { required: true })),
    await vhostField(),
    field(
      "Type",
      choice("type", ["classic", "stream"], "classic"),
      "A classic queue delivers each message once; a stream keeps messages, and each reader has its own offset.",
    ),
    check("Durable: survives a broker restart", "durable", true),
  ];
  additionDialog("queue", fields, async (given) => {
    const [name, vhost, type] = [given.get("name"), given.get("vhost"), given.get("type")];
    await refuseExisting(at`/api/queues/${vhost}`, "Queue", name, { where: ` in virtual host ${vhost}` });
    await put(at`/api/queues/${vhost}/${name}`, {
      durable: given.has("durable") || type === "stream",
      auto_delete: false,
      arguments: { "x-queue-type": type },
    });
    return { address: queueAddress(vhost, name), text: `Queue ${name} created.` };
  });
}
