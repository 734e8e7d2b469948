// All exchanges.

import { path as at, get, put } from "../api.js";
import { fill, h } from "../dom.js";
import { rate } from "../format.js";
import { check, choice, field, textInput } from "../forms.js";
import { objectOf } from "../json_object.js";
import { badge, button, pageHead } from "../layout.js";
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
import { go, link } from "../router.js";
import { numeric } from "../table.js";
import { keptVhost, vhostNames } from "../vhosts.js";
import { exchangeLink, shownExchange } from "./exchange_links.js";

export const path = "/exchanges";
export const nav = "Exchanges";
export const title = () => "Exchanges";

const COLUMNS =
  "name,vhost,type,durable,internal,auto_delete,policy," +
  "message_stats.publish_in_details,message_stats.publish_out_details";
const USUAL_TYPES = ["direct", "topic", "fanout", "headers"];

export const find = finder("exchanges", "name,vhost", ({ vhost, name }) => ({
  title: shownExchange(name),
  hint: `exchange in ${vhost}`,
  address: exchangeLink(vhost, name).slice(1),
}));

export function show(place, _parameters, signal) {
  const table = listTable({
    columns: columns(),
    source: listSource("exchanges", COLUMNS),
    signal,
    id: "exchanges",
    canRegex: true,
    noun: "exchange",
    empty: "No exchanges visible to you. Ask an administrator for permissions in a virtual host.",
  });
  const buttons = [button("Topology", goToTopology), button("Add exchange", addExchange, "strong")];
  fill(place, pageHead("Exchanges", null, ...buttons), table.element);
}

function columns() {
  return [
    nameColumn(exchangeLink, shownExchange),
    VHOST,
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
  return features.map((text) => badge(text));
}

async function goToTopology() {
  const shown = keptVhost() || (await vhostNames())[0] || "/";
  go(link`/topology/${shown}`.slice(1));
}

export async function addExchange() {
  const [vhost, types] = await Promise.all([vhostField(), exchangeTypes()]);
  additionDialog("exchange", fieldsOf(vhost, types), async (given) => {
    const [name, vhost] = [given.get("name"), given.get("vhost")];
    await refuseExisting(at`/api/exchanges/${vhost}`, "Exchange", name, { where: ` in virtual host ${vhost}` });
    await put(at`/api/exchanges/${vhost}/${name}`, declarationOf(given));
    return { address: exchangeLink(vhost, name), text: `Exchange ${name} created.` };
  });
}

function fieldsOf(vhost, types) {
  return [
    field("Name", textInput("name", { required: true })),
    h("div", { class: "row" }, vhost, field("Type", choice("type", types, "direct"))),
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
