// Effective policy of a queue or exchange: the values of arguments, policies and defaults, and which is in effect.

import { path as at, get } from "../api.js";
import { shownValue } from "../definition_rows.js";
import { fill, h } from "../dom.js";
import { choice, field, form } from "../forms.js";
import { vhostNames } from "../vhosts.js";
import { policyAddress } from "./admin_policy_values.js";
import { suggestionInput } from "./admin_suggestions.js";

export function effectivePolicy(signal) {
  const place = h("div", { class: "card effective-policy" });
  vhostNames(signal).then((vhosts) => signal.aborted || fill(place, question(vhosts, signal)));
  return place;
}

function question(vhosts, signal) {
  const result = h("div", { role: "status" });
  const vhost = choice("vhost", vhosts, vhosts[0]);
  const kind = choice("kind", ["queue", "exchange"], "queue");
  const name = suggestionInput(
    { name: "name", required: true },
    () => at`/api/${`${kind.value}s`}/${vhost.value}`,
    signal,
  );
  const asking = form(
    [h("div", { class: "row" }, field("Virtual host", vhost), field("Kind", kind), field("Name", name.element))],
    "Show effective policy",
    async (given) => {
      fill(result);
      const answer = await get(
        at`/api/policies-explained/${given.get("vhost")}/${given.get("kind")}/${given.get("name")}`,
        undefined,
        { signal },
      );
      fill(result, explanation(answer));
    },
  );
  return [asking, result];
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

/** The broker names a policy as "policy NAME" or "operator policy NAME"; other sources are arguments or defaults. */
function policyOf(source, { vhost }) {
  const found = /^(operator )?policy (.*)$/s.exec(source);
  return found && policyAddress(Boolean(found[1]), { vhost, name: found[2] });
}
