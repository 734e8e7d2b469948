// All streams, super streams and sharded queues.

import { path as at, put } from "../api.js";
import { sparkline } from "../chart.js";
import { fill, h } from "../dom.js";
import { bytes, number, rate } from "../format.js";
import { choice, field, textInput } from "../forms.js";
import { badge, button, emptyCard, pageHead } from "../layout.js";
import {
  additionDialog,
  finder,
  listSource,
  listTable,
  nameColumn,
  refuseExisting,
  VHOST,
  vhostField,
} from "../list_page.js";
import { link } from "../router.js";
import { numeric } from "../table.js";
import { ValueHistory } from "../value_history.js";

export const path = "/streams";
export const nav = "Streams";
export const title = () => "Streams";

const COLUMNS =
  "name,vhost,kind,state,partitions,messages,bytes,readers,consumers,lag,largest_share,problem," +
  "message_stats.publish_details,message_stats.deliver_get_details";
const UNEVEN = 1.5; // times the fair share

const streamAddress = (vhost, name) => link`/streams/${vhost}/${name}`;

export const find = finder("streams", "name,vhost,kind", ({ vhost, name, kind }) => ({
  title: name,
  hint: `${kind} in ${vhost}`,
  address: streamAddress(vhost, name).slice(1),
}));

export function show(place, _parameters, signal) {
  const lags = new ValueHistory();
  const ask = listSource("streams", COLUMNS);
  const source = async (question, signal) => {
    const answer = await ask(question, signal);
    for (const row of answer.items) lags.note(keyOf(row), row.lag);
    return answer;
  };
  const table = listTable({ columns: columns(lags), source, signal, noun: "stream", empty: nothingYet });
  fill(place, pageHead("Streams", null, button("Add stream", addStream, "strong")), table.element);
}

const keyOf = (row) => JSON.stringify([row.vhost, row.name]);

function columns(lags) {
  return [
    nameColumn(streamAddress),
    VHOST,
    {
      title: "Kind",
      sort: "kind",
      rank: 2,
      width: "kind",
      value: (row) => [row.kind, row.partitions, row.state, row.problem],
      show: badges,
    },
    numeric("Messages", "messages", number),
    numeric("Size", "bytes", bytes, { rank: 2 }),
    numeric("Publish rate", "message_stats.publish_details.rate", rate, { rank: 2 }),
    numeric("Deliver rate", "message_stats.deliver_get_details.rate", rate, { rank: 2 }),
    numeric("Readers", "readers", number, {
      rank: 3,
      value: (row) => (row.kind === "shards" ? row.consumers : row.readers),
    }),
    numeric("Lag", "lag", number),
    {
      title: "Recent lag",
      rank: 3,
      width: "m",
      value: (row) => [lags.of(keyOf(row)), row.name],
      show: ([values, name]) => sparkline(values, `Lag of the readers of ${name}`),
    },
    numeric("Largest share", "largest_share", share, {
      rank: 4,
      width: "m",
      value: (row) => [row.largest_share, row.partitions],
    }),
  ];
}

function badges([kind, partitions, state, problem]) {
  return [
    badge(kind === "stream" ? kind : `${kind} · ${partitions}`),
    state === "paused" && badge(state, "warn"),
    problem && badge("no partitions", "warn", problem),
  ];
}

function share([value, partitions]) {
  if (typeof value !== "number") return "–";
  const text = `${Math.round(value * 100)} %`;
  return isUneven(value, partitions) ? badge(text, "warn") : text;
}

/** Whether one of the partitions has much more than its fair share. */
export function isUneven(value, partitions) {
  return partitions > 1 && value * partitions > UNEVEN;
}

function nothingYet() {
  return emptyCard(
    "No streams yet",
    h(
      "p",
      {},
      "A classic queue delivers each message once. A stream keeps its messages: any number of readers consume it, " +
        "each from its own offset, and can read it again.",
    ),
    h(
      "pre",
      {},
      'channel.queue_declare("events", durable=True, arguments={"x-queue-type": "stream"})\n' +
        "channel.basic_qos(prefetch_count=100)\n" +
        'channel.basic_consume("events", on_message, arguments={"x-stream-offset": "first"})',
    ),
    h("div", { class: "actions" }, h("button", { type: "button", onclick: addStream }, "Or add a stream here")),
  );
}

const AGES = { "no limit": undefined, "1 day": "1D", "1 week": "7D", "1 month": "1M", "1 year": "1Y" };

export async function addStream() {
  const fields = [
    field("Name", textInput("name", { required: true })),
    await vhostField(),
    field("Max age", choice("age", Object.keys(AGES), "no limit")),
    field(
      "Max size",
      h("input", { name: "gigabytes", type: "number", min: "1", placeholder: "no limit" }),
      "In GiB. The oldest messages are deleted first.",
    ),
  ];
  additionDialog("stream", fields, async (given) => {
    const [name, vhost] = [given.get("name"), given.get("vhost")];
    const [age, most] = [AGES[given.get("age")], Number(given.get("gigabytes"))];
    const limits = { ...(age && { "x-max-age": age }), ...(most > 0 && { "x-max-length-bytes": most * 2 ** 30 }) };
    await refuseExisting(at`/api/queues/${vhost}`, "Queue", name, { where: ` in virtual host ${vhost}` });
    await put(at`/api/queues/${vhost}/${name}`, {
      durable: true,
      auto_delete: false,
      arguments: { "x-queue-type": "stream", ...limits },
    });
    return { address: streamAddress(vhost, name), text: `Stream ${name} created.` };
  });
}
