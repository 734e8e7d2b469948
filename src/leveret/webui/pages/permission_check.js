// Form that asks the broker whether a user may perform an operation; shows each check and the remedy.

import { path as at, get } from "../api.js";
import { fill, h } from "../dom.js";
import { field, form, textInput } from "../forms.js";
import { problemBox } from "../notices.js";
import { vhostNames } from "../vhosts.js";
import { suggestionInput } from "./admin_suggestions.js";

const PLAIN = ["configure", "write", "read"];

/** `user` is fixed; null shows a field for it, preset with `first`. */
export function permissionCheck({ user, first = "", signal }) {
  const place = h("div", { class: "card tester" });
  Promise.all([get("/api/permission-check/actions", undefined, { signal }), vhostNames(signal)]).then(
    ([actions, vhosts]) => signal.aborted || fill(place, question({ user, first, signal, actions, vhosts })),
    (problem) => problem.name === "AbortError" || fill(place, problemBox(problem)),
  );
  return place;
}

function question({ user, first, signal, actions, vhosts }) {
  const result = h("div", { class: "check-place", role: "status" });
  const vhost = h(
    "select",
    { name: "vhost" },
    vhosts.map((name) => h("option", { value: name }, name)),
  );
  const action = h(
    "select",
    { name: "action" },
    actions.map((one) =>
      h("option", { value: one.name }, PLAIN.includes(one.name) ? `${one.name} (permission only)` : one.name),
    ),
  );
  const chosen = () => actions.find((one) => one.name === action.value);
  const list = (what) => at`/api/${what === "exchange" ? "exchanges" : "queues"}/${vhost.value}`;
  const who = suggestionInput({ name: "user", required: true, value: first }, () => "/api/users", signal);
  const name = suggestionInput({ name: "name" }, () => list(chosen().what), signal);
  const other = suggestionInput({ name: "exchange" }, () => list("exchange"), signal);
  const fields = {
    name: field("Queue", name.element),
    other: field("Exchange", other.element),
    key: field("Routing key", textInput("routing_key"), "Only checked for topic exchanges."),
  };
  const adapt = () => {
    const one = chosen();
    relabel(fields.name, one.what);
    relabel(fields.other, one.exchange === "source" ? "source exchange" : one.exchange);
    fields.other.hidden = !one.exchange;
    other.input.required = one.needs_exchange;
    name.input.required = one.what !== "exchange";
    name.input.placeholder = one.what === "exchange" ? "amq.default" : "";
    fields.key.hidden = !one.takes_routing_key;
    fill(result);
  };
  action.addEventListener("change", adapt);
  adapt();
  const asking = form(
    [
      h(
        "div",
        { class: "row" },
        user === null && field("User", who.element),
        field("Virtual host", vhost),
        field("Operation", action),
        fields.name,
        fields.other,
        fields.key,
      ),
    ],
    "Check",
    async (given) =>
      fill(result, resultOf(await get("/api/permission-check", queryOf(given, user, chosen()), { signal }))),
  );
  return [asking, result];
}

function relabel(labelled, what) {
  labelled.firstChild.textContent = what.charAt(0).toUpperCase() + what.slice(1);
}

function queryOf(given, user, action) {
  return {
    user: user ?? given.get("user"),
    vhost: given.get("vhost"),
    action: action.name,
    name: given.get("name"),
    exchange: (action.exchange && given.get("exchange")) || undefined,
    routing_key: (action.takes_routing_key && given.get("routing_key")) || undefined, // omitted: any routing key
  };
}

function resultOf(answer) {
  return h(
    "div",
    { class: `check-result ${answer.allowed ? "yes" : "no"}` },
    h("p", {}, h("strong", {}, answer.allowed ? "Allowed." : "Denied."), " ", answer.reason),
    h("ul", { class: "checks" }, answer.checks.map(checkRow)),
    answer.remedy && h("p", {}, h("strong", {}, "Remedy: "), answer.remedy, "."),
  );
}

function checkRow(check) {
  return h(
    "li",
    { class: check.passed ? "passed" : "failed" },
    h("span", { class: "mark-of", "aria-label": check.passed ? "passed" : "failed" }, check.passed ? "✓" : "✗"),
    h("span", {}, check.kind === "rule" ? `${check.what} ${check.name}` : `${check.kind} ${check.what} ${check.name}`),
    check.pattern === null
      ? h("span", { class: "faint" }, check.text)
      : h("code", { title: "Pattern of this permission" }, check.pattern || "(empty)"),
  );
}
