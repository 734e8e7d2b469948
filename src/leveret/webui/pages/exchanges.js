// All exchanges.

import { path as at, get, put } from "../api.js";
import { fill, h } from "../dom.js";
import { rate } from "../format.js";
import { check, choice, dialog, field, form, textInput } from "../forms.js";
import { objectOf } from "../json_object.js";
import { button, pageHead } from "../layout.js";
import { notify } from "../notices.js";
import { go, link } from "../router.js";
import { numeric, Table } from "../table.js";
import { keptVhost, vhostChoice, vhostNames } from "../vhosts.js";
import { exchangeLink, shownExchange } from "./exchange_links.js";
import { vhostSuffix } from "./queue_link.js";

export const path = "/exchanges";
export const nav = "Exchanges";
export const title = () => "Exchanges";

const COLUMNS =
  "name,vhost,type,durable,internal,auto_delete,policy," +
  "message_stats.publish_in_details,message_stats.publish_out_details";
const USUAL_TYPES = ["direct", "topic", "fanout", "headers"];

export async function find(text, signal) {
  const answer = await get(
    "/api/exchanges",
    { page: 1, page_size: 12, name: text, sort: "name", columns: "name,vhost" },
    { signal },
  );
  return answer.items.map((one) => ({
    title: shownExchange(one.name),
    hint: `exchange in ${one.vhost}`,
    address: exchangeLink(one.vhost, one.name).slice(1),
  }));
}

export function show(place, _parameters, signal) {
  let vhost = keptVhost();
  const table = new Table({
    columns: columns(),
    source: (question, signal) =>
      get(vhost ? at`/api/exchanges/${vhost}` : "/api/exchanges", { ...question, columns: COLUMNS }, { signal }),
    signal,
    sort: "name",
    noun: "exchange",
    isKept: true,
    empty: () =>
      h(
        "p",
        { class: "empty" },
        "No exchanges visible to you. Ask an administrator for permissions in a virtual host.",
      ),
  });
  table.tools.append(
    vhostChoice(signal, (chosen) => {
      vhost = chosen;
      table.restart();
    }),
  );
  fill(
    place,
    pageHead(
      "Exchanges",
      null,
      button("Topology", () => goToTopology(vhost)),
      button("Add exchange", () => addExchange(vhost), "strong"),
    ),
    table.element,
  );
}

function columns() {
  return [
    {
      title: "Name",
      sort: "name",
      width: "name",
      value: (row) => [row.vhost, row.name],
      show: ([vhost, name]) => [
        h("a", { href: exchangeLink(vhost, name), title: shownExchange(name) }, shownExchange(name)),
        vhostSuffix(vhost),
      ],
    },
    { title: "Vhost", sort: "vhost", rank: 4, width: "s", value: (row) => row.vhost },
    { title: "Type", sort: "type", width: "type", value: (row) => row.type },
    { title: "Features", rank: 2, width: "l", value: featuresOf, show: badges },
    { title: "Policy", sort: "policy", rank: 3, width: "m", value: (row) => row.policy ?? "" },
    numeric("Message rate in", "message_stats.publish_in_details.rate", rate),
    numeric("Message rate out", "message_stats.publish_out_details.rate", rate, { rank: 2 }),
  ];
}

/** Features as badge texts. */
export function featuresOf(exchange) {
  return [exchange.durable && "durable", exchange.internal && "internal", exchange.auto_delete && "auto-delete"].filter(
    Boolean,
  );
}

function badges(features) {
  return features.map((text) => h("span", { class: "badge" }, text));
}

async function goToTopology(vhost) {
  const shown = vhost || (await vhostNames())[0] || "/";
  go(link`/topology/${shown}`.slice(1));
}

async function addExchange(vhost) {
  const [names, types] = await Promise.all([vhostNames(), exchangeTypes()]);
  const vhosts = names.length ? names : ["/"];
  const close = dialog(
    "Add exchange",
    form(fieldsOf(vhosts, vhost, types), "Add exchange", async (given) => {
      const [name, where] = [given.get("name"), given.get("vhost")];
      await put(at`/api/exchanges/${where}/${name}`, declarationOf(given));
      close();
      notify(`Exchange ${name} created.`);
      go(exchangeLink(where, name).slice(1));
    }),
  );
}

function fieldsOf(vhosts, vhost, types) {
  return [
    field("Name", textInput("name", { required: true })),
    h(
      "div",
      { class: "row" },
      field("Virtual host", choice("vhost", vhosts, vhost || vhosts[0])),
      field("Type", choice("type", types, "direct")),
    ),
    check("Durable: survives a broker restart", "durable", true),
    check("Internal: accepts messages from other exchanges only", "internal"),
    check("Auto-delete: deleted with its last binding", "auto_delete"),
    field("Alternate exchange", textInput("alternate"), "Receives messages that no binding matches (optional)."),
    field(
      "Arguments",
      h("textarea", { name: "arguments", rows: "2", spellcheck: "false", placeholder: '{"x-delayed-type": "topic"}' }),
      "JSON object (optional).",
    ),
  ];
}

function declarationOf(given) {
  const table = objectOf(given.get("arguments"), "Arguments");
  if (given.get("alternate")) table["alternate-exchange"] = given.get("alternate");
  return {
    type: given.get("type"),
    durable: given.has("durable"),
    internal: given.has("internal"),
    auto_delete: given.has("auto_delete"),
    arguments: table,
  };
}

/** Exchange types of the broker, the standard ones first. */
async function exchangeTypes() {
  const overview = await get("/api/overview", { columns: "exchange_types" }).catch(() => null);
  const others = (overview?.exchange_types ?? []).map((one) => one.name).filter((name) => !USUAL_TYPES.includes(name));
  return [...USUAL_TYPES, ...others];
}
