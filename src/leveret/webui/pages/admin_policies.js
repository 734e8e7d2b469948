// Policies and operator policies, and where the values of a queue or an exchange come from.

import { get } from "../api.js";
import { h } from "../dom.js";
import { Table } from "../table.js";
import { explainer } from "./admin_explain.js";
import { frame, isAdministrator, listHead, section, writesPolicies } from "./admin_frame.js";
import { definitionText, policyAddress } from "./admin_policy_values.js";

export const path = "/admin/policies";
export const under = "Admin";
export const title = () => "Policies";

const ABOUT =
  "A policy gives settings to all queues and exchanges whose names its pattern matches. Where several match, all of them hold; of two values for the same setting, that of the higher priority. An operator policy sets limits that no other passes.";

export function show(place, parameters, signal, user) {
  const adding = (address, text, kind) => h("a", { class: `button ${kind}`, href: address }, text);
  const add = adding("#/admin/policy", "Add a policy", "strong");
  const addOperator = adding("#/admin/operator-policy", "Add an operator policy", "");
  frame(
    place,
    user,
    "Policies",
    listHead("Policies", ABOUT, writesPolicies(user) && add),
    !writesPolicies(user) &&
      h("p", { class: "faint" }, "You may look; to set policies takes the tag policymaker or administrator."),
    policyTable(
      false,
      signal,
      "No policy yet. The first one could keep all queues short: pattern .*, key max-length, value 100000.",
    ),
    section(
      "Operator policies",
      policyTable(
        true,
        signal,
        "No operator policy. They are for those who run the broker: limits that teams cannot raise.",
      ),
      isAdministrator(user) && addOperator,
    ),
    section("Why does a value hold?", explainer(signal)),
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
        show: (policy) => h("a", { href: policyAddress(isOperator, policy), title: policy.name }, policy.name),
      },
      { title: "Vhost", sort: "vhost", rank: 2, width: "m", value: (row) => row.vhost },
      {
        title: "Pattern",
        sort: "pattern",
        value: (row) => row.pattern,
        show: (pattern) => h("code", {}, pattern || "(every name)"),
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
    empty: () => h("p", { class: "empty" }, hint),
  }).element;
}
