// "Where would this routing key go?": asked of the broker, which walks the bindings without publishing anything.

import { get } from "../api.js";
import { fill, h } from "../dom.js";
import { field, form } from "../forms.js";
import { plural } from "../format.js";
import { objectOf, objectText } from "../object_text.js";
import { link } from "../router.js";
import { exchangeLink, shownExchange } from "./exchange_links.js";

const SHOWN = 100; // queues and bindings that are told one by one

/** `whenAnswered(answer)` is told where it would go, and null when that is put away again. */
export function routeTester(address, whenAnswered) {
  const told = h("div", { class: "route-answer", role: "status" });
  const key = h("input", {
    name: "routing_key",
    placeholder: "order.paid",
    maxlength: "255",
    autocomplete: "off",
    spellcheck: "false",
  });
  const headers = h("textarea", { name: "headers", rows: "1", spellcheck: "false", placeholder: '{"colour": "red"}' });
  const asking = form(
    [h("div", { class: "row" }, field("Routing key", key), field("Headers", headers))],
    "Where would it go?",
    async (given) => {
      const answer = await get(address, {
        routing_key: given.get("routing_key"),
        ...queryOf(objectOf(given.get("headers"), "Headers")),
      });
      fill(told, answerOf(answer));
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
        fill(told);
        clear.hidden = true;
        whenAnswered(null);
      },
    },
    "Clear",
  );
  asking.querySelector(".actions").append(clear);
  return h("section", { class: "card route-tester" }, h("h2", {}, "Where would this routing key go?"), asking, told);
}

function queryOf(headers) {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => {
      if (!["string", "number", "boolean"].includes(typeof value)) {
        throw {
          title: "Headers not accepted",
          reason: `Header ${name} must be text, a number, true or false: others cannot be tried here.`,
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
          `It would reach ${plural(answer.queues.length, "queue")}: `,
          h(
            "span",
            { class: "reached" },
            queues.map((name) => h("a", { class: "badge", href: link`/queues/${answer.vhost}/${name}` }, name)),
          ),
          more(answer.queues.length),
        )
      : h(
          "p",
          { class: "warn-text" },
          "It would reach no queue: the message would be dropped, or returned to a publisher that asks for it (mandatory).",
        ),
    answer.by_chance &&
      h("p", { class: "faint" }, "One of the exchanges draws by chance: the next message may go elsewhere."),
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
    h("a", { href: exchangeLink(vhost, step.source) }, shownExchange(step.source)),
    " → ",
    h("a", { href: target }, shownExchange(step.destination)),
    " ",
    h("span", { class: "faint" }, reasonOf(step)),
  ];
}

function reasonOf(step) {
  if (step.by === "alternate-exchange") return "as the alternate exchange: no binding takes it";
  if (step.by === "name") return "by its name";
  return ["by binding", step.routing_key === "" ? "without a key" : step.routing_key, objectText(step.arguments)]
    .filter(Boolean)
    .join(" ");
}
