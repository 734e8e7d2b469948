// Policies, operator policies, and the effective policy of a queue or exchange.

import { get } from "../api.js";
import { h } from "../dom.js";
import { nameLink, pageHead, section } from "../layout.js";
import { Table } from "../table.js";
import { effectivePolicy } from "./admin_effective_policy.js";
import { frame, isAdministrator, writesPolicies } from "./admin_frame.js";
import { definitionText, policyAddress } from "./admin_policy_values.js";

export const path = "/admin/policies";
export const under = "Admin";
export const title = () => "Policies";

const ABOUT =
  "A policy applies settings to all queues and exchanges whose names match its pattern. If several policies match, " +
  "their settings are combined, and the higher priority wins where they differ. An operator policy sets limits that " +
  "other policies cannot exceed.";

export function show(place, _parameters, signal, user) {
  const adding = (address, text, kind) => h("a", { class: `button ${kind}`, href: address }, text);
  const add = adding("#/admin/policy", "Add policy", "strong");
  const addOperator = adding("#/admin/operator-policy", "Add operator policy", "");
  frame(
    place,
    user,
    "Policies",
    pageHead("Policies", ABOUT, writesPolicies(user) && add),
    !writesPolicies(user) &&
      h("p", { class: "faint" }, "Read-only: changing policies requires the tag policymaker or administrator."),
    policyTable(
      false,
      signal,
      "No policies yet. For example, limit the length of all queues: pattern .*, key max-length, value 100000.",
    ),
    section(
      "Operator policies",
      policyTable(true, signal, "No operator policies. Use them to set limits that other policies cannot exceed."),
      isAdministrator(user) && addOperator,
    ),
    section("Effective policy", effectivePolicy(signal)),
  );
}

function policyTable(isOperator, signal, hint) {
  const address = isOperator ? "/api/operator-policies" : "/api/policies";
  return new Table({
    columns: [
      {
        title: "Name",
        sort: "name",
        width: "name",
        value: ({ vhost, name }) => ({ vhost, name }),
        show: (policy) => nameLink(policyAddress(isOperator, policy), policy.name),
      },
      { title: "Vhost", sort: "vhost", rank: 2, width: "m", value: (row) => row.vhost },
      {
        title: "Pattern",
        sort: "pattern",
        value: (row) => row.pattern,
        show: (pattern) => h("code", {}, pattern || "(all names)"),
      },
      { title: "Applies to", sort: "apply-to", rank: 2, width: "m", value: (row) => row["apply-to"].replace("_", " ") },
      {
        title: "Definition",
        rank: 2,
        value: (row) => definitionText(row.definition),
        show: (text) => h("code", {}, text),
      },
      { title: "Priority", sort: "priority", align: "right", width: "s", value: (row) => row.priority },
    ],
    source: (question, signal) => get(address, question, { signal }),
    signal,
    sort: "name",
    noun: isOperator ? "operator policy" : "policy",
    nouns: isOperator ? "operator policies" : "policies",
    empty: hint,
  }).element;
}
