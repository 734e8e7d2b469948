// Why does a value hold? For one queue or exchange: every value that an argument, a policy or a default gives, and which wins.

import { get, path as at } from "../api.js";
import { fill, h } from "../dom.js";
import { choice, field, form } from "../forms.js";
import { vhostNames } from "../vhosts.js";
import { policyAddress, shownValue } from "./admin_policy_values.js";
import { suggesting } from "./admin_suggestions.js";

export function explainer(signal) {
  const place = h("div", { class: "card explainer" });
  vhostNames(signal).then((vhosts) => signal.aborted || fill(place, question(vhosts, signal)));
  return place;
}

function question(vhosts, signal) {
  const told = h("div", { role: "status" });
  const vhost = choice("vhost", vhosts, vhosts[0]);
  const kind = choice("kind", ["queue", "exchange"], "queue");
  const name = suggesting({ name: "name", required: true }, () => at`/api/${`${kind.value}s`}/${vhost.value}`, signal);
  const asking = form(
    [h("div", { class: "row" }, field("Virtual host", vhost), field("Kind", kind), field("Name", name.element))],
    "Show effective policy",
    async (given) => {
      fill(told);
      const answer = await get(
        at`/api/policies-explained/${given.get("vhost")}/${given.get("kind")}/${given.get("name")}`,
        undefined,
        { signal },
      );
      fill(told, explanation(answer));
    },
  );
  return [asking, told];
}

function explanation(answer) {
  if (!answer.values.length)
    return h(
      "p",
      { class: "faint" },
      `No argument or policy applies to ${answer.kind} ${answer.name}: all settings have their defaults.`,
    );
  const policies = [...new Set(answer.values.map((one) => one.source))].filter((source) => policyOf(source, answer));
  return [
    h(
      "p",
      {},
      policies.length
        ? ["Matched by ", policies.map((source, at) => [at > 0 && ", ", sourceOf(source, answer)]), "."]
        : "No policy matches.",
    ),
    h(
      "div",
      { class: "explained" },
      answer.values.map((one) =>
        h(
          "div",
          { class: one.is_effective ? "holds" : "lost" },
          h("code", {}, one.key),
          h("code", { class: "value" }, shownValue(one.value)),
          h("span", {}, sourceOf(one.source, answer)),
          h(
            "span",
            { class: `badge ${one.is_effective ? "good" : ""}` },
            one.is_effective ? "in effect" : "overridden",
          ),
        ),
      ),
    ),
  ];
}

function sourceOf(source, answer) {
  const policy = policyOf(source, answer);
  return policy ? h("a", { href: policy }, source) : source;
}

/** The broker names a policy as "policy NAME" or "operator policy NAME"; all else is an argument or a default. */
function policyOf(source, { vhost }) {
  const found = /^(operator )?policy (.*)$/s.exec(source);
  return found && policyAddress(Boolean(found[1]), { vhost, name: found[2] });
}
