// One exchange: rates, bindings, topology, route tester.

import { path as at, get } from "../api.js";
import { lineChart, rateSeries } from "../chart.js";
import { deleteAndLeave } from "../deletion.js";
import { fill, h, setText } from "../dom.js";
import { facts } from "../facts.js";
import { number, rate } from "../format.js";
import { badge, objectHead, section } from "../layout.js";
import { endTrouble, notify, showTrouble, undoable } from "../notices.js";
import { poll } from "../poll.js";
import { Tiles } from "../tiles.js";
import { objectRanges } from "../time_range.js";
import { bindingDialog, bindingsTable } from "./exchange_bindings.js";
import { exchangeInPath, isBuiltIn, shownExchange } from "./exchange_links.js";
import { featuresOf } from "./exchanges.js";
import { exchangePublishDialog } from "./queue_publish.js";
import { routeTester } from "./route_tester.js";
import { topologyPicture } from "./topology.js";

export const path = "/exchanges/:vhost/:name";
export const under = "Exchanges";
export const title = ({ name }) => shownExchange(nameOf(name));

const RATES = { "Publish (in)": "publish_in", "Publish (out)": "publish_out" };

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
    async () => view.show(await get(address, objectRanges.query("msg_rates"), { signal })),
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
  view.publish.addEventListener("click", () => exchangePublishDialog(vhost, name, refresh));
  view.remove.addEventListener("click", () => removeExchange(name, address, signal));
  fill(
    place,
    view.head,
    view.trouble,
    view.tiles.element,
    h("div", { class: "chart-tools" }, objectRanges.buttons(refresh)),
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
      section(
        "Incoming bindings",
        toHere.element,
        name && addButton("incoming", () => bindingDialog(vhost, name, "destination", changed)),
      ),
      section(
        "Outgoing bindings",
        fromHere.element,
        name && addButton("outgoing", () => bindingDialog(vhost, name, "source", changed)),
      ),
    ),
    view.facts,
  );
}

function addButton(kind, add) {
  return h("button", { type: "button", onclick: add }, `Add ${kind} binding …`);
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
      [...featuresOf(exchange), ...policy].map((text) => badge(text)),
    );
    const stats = exchange.message_stats ?? {};
    this.tiles.show({
      "Message rate in": rate(stats.publish_in_details?.rate),
      "Message rate out": rate(stats.publish_out_details?.rate),
      Published: number(stats.publish_in),
      Routed: number(stats.publish_out),
    });
    this.rates.draw(rateSeries(stats, RATES), rate, objectRanges.current.age);
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
