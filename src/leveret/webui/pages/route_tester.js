// Route tester: the queues that a routing key reaches, without publishing a message.

import { get } from "../api.js";
import { fill, h } from "../dom.js";
import { plural } from "../format.js";
import { field, form, textInput } from "../forms.js";
import { objectOf, objectText } from "../json_object.js";
import { nameLink, nameText } from "../layout.js";
import { link } from "../router.js";
import { exchangeLink, shownExchange } from "./exchange_links.js";

const SHOWN = 100; // maximum queues and bindings listed

/** `whenAnswered(answer)` is called with the route, and with null when the result is cleared. */
export function routeTester(address, whenAnswered) {
  const result = h("div", { class: "route-answer", role: "status" });
  const key = textInput("routing_key", { placeholder: "order.paid" });
  const headers = h("textarea", { name: "headers", rows: "1", spellcheck: "false", placeholder: '{"colour": "red"}' });
  const asking = form(
    [h("div", { class: "row" }, field("Routing key", key), field("Headers", headers))],
    "Test routing key",
    async (given) => {
      const answer = await get(address, {
        routing_key: given.get("routing_key"),
        ...queryOf(objectOf(given.get("headers"), "Headers")),
      });
      fill(result, answerOf(answer));
      clear.hidden = false;
      whenAnswered(answer);
    },
  );
  const clear = h(
    "button",
    {
      type: "button",
      hidden: true,
      onclick: () => {
        fill(result);
        clear.hidden = true;
        whenAnswered(null);
      },
    },
    "Clear",
  );
  asking.querySelector(".actions")?.append(clear);
  return h("section", { class: "card route-tester" }, h("h2", {}, "Route tester"), asking, result);
}

function queryOf(headers) {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => {
      if (!["string", "number", "boolean"].includes(typeof value)) {
        throw {
          title: "Invalid headers",
          reason: `Header ${name} must be a string, a number, true or false.`,
        };
      }
      return [`headers.${name}`, JSON.stringify(value)];
    }),
  );
}

function answerOf(answer) {
  const queues = answer.queues.slice(0, SHOWN);
  const steps = answer.bindings.slice(0, SHOWN);
  return [
    answer.routed
      ? h(
          "p",
          {},
          `Routed to ${plural(answer.queues.length, "queue")}: `,
          h(
            "span",
            { class: "reached" },
            queues.map((name) =>
              h("a", { class: "badge", href: link`/queues/${answer.vhost}/${name}` }, nameText(name)),
            ),
          ),
          more(answer.queues.length),
        )
      : h(
          "p",
          { class: "warn-text" },
          "Not routed to any queue: the message is dropped, or returned if it is published as mandatory.",
        ),
    answer.by_chance &&
      h("p", { class: "faint" }, "One of the exchanges chooses at random: the next message may be routed differently."),
    steps.length > 0 &&
      h(
        "ol",
        { class: "steps" },
        steps.map((step) => h("li", {}, stepOf(step, answer.vhost))),
        more(answer.bindings.length),
      ),
  ];
}

function more(count) {
  return count > SHOWN && h("span", { class: "faint" }, ` and ${count - SHOWN} more`);
}

function stepOf(step, vhost) {
  const target =
    step.destination_type === "queue"
      ? link`/queues/${vhost}/${step.destination}`
      : exchangeLink(vhost, step.destination);
  return [
    nameLink(exchangeLink(vhost, step.source), shownExchange(step.source)),
    " → ",
    nameLink(target, shownExchange(step.destination)),
    " ",
    h("span", { class: "faint" }, reasonOf(step)),
  ];
}

function reasonOf(step) {
  if (step.by === "alternate-exchange") return "alternate exchange: no binding matches";
  if (step.by === "name") return "by queue name";
  return [
    "by binding",
    step.routing_key === "" ? "with an empty routing key" : step.routing_key,
    objectText(step.arguments),
  ]
    .filter(Boolean)
    .join(" ");
}
