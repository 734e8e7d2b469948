// One exchange: rates, bindings, topology, route tester.

import { path as at, get } from "../api.js";
import { lineChart, pointsOf } from "../chart.js";
import { deleteAndLeave } from "../deletion.js";
import { fill, h, setText } from "../dom.js";
import { facts } from "../facts.js";
import { number, rate } from "../format.js";
import { objectHead } from "../layout.js";
import { endTrouble, notify, showTrouble, undoable } from "../notices.js";
import { poll } from "../poll.js";
import { Tiles } from "../tiles.js";
import { bindingDialog, bindingsTable } from "./exchange_bindings.js";
import { exchangeInPath, isBuiltIn, shownExchange } from "./exchange_links.js";
import { featuresOf } from "./exchanges.js";
import { exchangePublishDialog } from "./queue_publish.js";
import { routeTester } from "./route_tester.js";
import { topologyPicture } from "./topology.js";

export const path = "/exchanges/:vhost/:name";
export const under = "Exchanges";
export const title = ({ name }) => shownExchange(nameOf(name));

const WINDOW = { msg_rates_age: 300, msg_rates_incr: 5 };
const RATES = [
  ["Publish (in)", "publish_in"],
  ["Publish (out)", "publish_out"],
];

/** The broker's name of the exchange. */
function nameOf(inAddress) {
  return inAddress === "amq.default" ? "" : inAddress;
}

export function show(place, parameters, signal) {
  const { vhost } = parameters;
  const name = nameOf(parameters.name);
  const address = at`/api/exchanges/${vhost}/${exchangeInPath(name)}`;
  const view = new View(vhost, name);
  const refresh = poll(
    signal,
    async () => view.show(await get(address, WINDOW, { signal })),
    (problem) => view.fail(problem),
  );
  const picture = topologyPicture(vhost, name, signal);
  const toHere = bindingsTable(vhost, name, "destination", () => changed(), signal);
  const fromHere = bindingsTable(vhost, name, "source", () => changed(), signal);
  const changed = () => {
    picture.refresh();
    toHere.refresh();
    fromHere.refresh();
  };
  view.publish.addEventListener("click", () => exchangePublishDialog(vhost, exchangeInPath(name), refresh));
  view.remove.addEventListener("click", () => removeExchange(name, address, signal));
  fill(
    place,
    view.head,
    view.trouble,
    view.tiles.element,
    h(
      "div",
      { class: "charts" },
      view.rates.element,
      routeTester(`${address}/route`, (answer) => picture.mark(answer)),
    ),
    picture.element,
    h(
      "div",
      { class: "two" },
      section("Incoming bindings", toHere, name && (() => bindingDialog(vhost, name, "destination", changed))),
      section("Outgoing bindings", fromHere, name && (() => bindingDialog(vhost, name, "source", changed))),
    ),
    view.facts,
  );
}

function section(name, table, add) {
  return h(
    "section",
    {},
    h(
      "header",
      { class: "section-head" },
      h("h2", {}, name),
      add &&
        h(
          "button",
          { type: "button", "aria-label": `Add ${name.toLowerCase().slice(0, -1)}`, onclick: add },
          "Add binding …",
        ),
    ),
    table.element,
  );
}

class View {
  constructor(vhost, name) {
    this.kind = h("span", {}, "");
    this.badges = h("span", { class: "badges" });
    this.publish = h("button", { type: "button", class: "strong" }, "Publish message …");
    this.remove = h("button", { type: "button", class: "danger", hidden: isBuiltIn(name) }, "Delete exchange");
    const about = [this.kind, `exchange in virtual host ${vhost} `, this.badges];
    this.head = objectHead(shownExchange(name), about, this.publish, this.remove);
    this.trouble = h("div", {});
    this.tiles = new Tiles("Message rate in", "Message rate out", "Published", "Routed");
    this.rates = lineChart("Message rates");
    this.table = h("dl", {});
    this.facts = h("details", { class: "card facts" }, h("summary", {}, "Arguments and policy"), this.table);
  }

  show(exchange) {
    endTrouble(this.trouble);
    this.publish.disabled = this.remove.disabled = false;
    setText(this.kind, `${exchange.type} `);
    const policy = exchange.policy ? [`policy ${exchange.policy}`] : [];
    fill(
      this.badges,
      [...featuresOf(exchange), ...policy].map((text) => h("span", { class: "badge" }, text)),
    );
    const stats = exchange.message_stats ?? {};
    this.tiles.show({
      "Message rate in": rate(stats.publish_in_details?.rate),
      "Message rate out": rate(stats.publish_out_details?.rate),
      Published: number(stats.publish_in),
      Routed: number(stats.publish_out),
    });
    this.rates.draw(
      RATES.map(([label, key]) => ({ label, points: pointsOf(stats[`${key}_details`], true) })),
      rate,
    );
    const { type, arguments: own, policy: name = "none", effective_policy_definition: definition } = exchange;
    fill(this.table, facts({ type, ...own, policy: name, ...definition }));
  }

  fail(problem) {
    this.publish.disabled = this.remove.disabled = problem.status === 404;
    showTrouble(this.trouble, problem, "All exchanges", "#/exchanges");
  }
}

function removeExchange(name, address, leaving) {
  undoable(`Exchange ${name} and its bindings will be deleted`, async () => {
    await deleteAndLeave(address, "/exchanges", leaving);
    notify(`Exchange ${name} deleted.`);
  });
}
