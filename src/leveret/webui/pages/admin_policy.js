// Form for an existing or new policy or operator policy, with a preview of the names that it matches.

import { path as at, get, put } from "../api.js";
import { definitionRows } from "../definition_rows.js";
import { deleteAndLeave } from "../deletion.js";
import { fill, h } from "../dom.js";
import { plural } from "../format.js";
import { choice, field, form, textInput } from "../forms.js";
import { button, objectHead, section } from "../layout.js";
import { notify, problemBox, undoable } from "../notices.js";
import { go } from "../router.js";
import { vhostNames } from "../vhosts.js";
import { frame, isAdministrator, writesPolicies } from "./admin_frame.js";
import { policyAddress } from "./admin_policy_values.js";

export const path = "/admin/policies/:kind/:vhost/:name";
export const under = "Admin";
export const title = ({ name }) => name;

const APPLY_TO = ["all", "queues", "classic_queues", "quorum_queues", "streams", "exchanges"];
const FRESH = { pattern: "", "apply-to": "queues", definition: {}, priority: 0 };
const TYPING = 250;

export function show(place, { kind, vhost, name }, signal, user) {
  showPolicy(place, kind === "operator", { vhost, name }, signal, user);
}

/** `known` is null for a new policy. */
export function showPolicy(place, isOperator, known, signal, user) {
  const kind = isOperator ? "operator policy" : "policy";
  const mayChange = isOperator ? isAdministrator(user) : writesPolicies(user);
  const content = h("div", { class: "policy" });
  const deleting =
    known && mayChange && button(`Delete ${kind}`, () => deletePolicy(isOperator, kind, known, signal), "danger");
  const head = known
    ? objectHead(known.name, `${kind} in virtual host ${known.vhost}`, deleting)
    : objectHead(`Add ${kind}`, "Takes effect immediately, also for existing queues and exchanges.");
  frame(place, user, "Policies", head, content);
  const asked = [
    known ? get(addressOf(isOperator, known), undefined, { signal }) : FRESH,
    get("/api/policy-keys", undefined, { signal }),
    vhostNames(signal),
  ];
  Promise.all(asked).then(
    ([policy, keys, vhosts]) =>
      signal.aborted || fill(content, editor({ isOperator, kind, known, policy, keys, vhosts, signal, mayChange })),
    (problem) => problem.name === "AbortError" || fill(content, problemBox(problem)),
  );
}

function addressOf(isOperator, { vhost, name }) {
  return isOperator ? at`/api/operator-policies/${vhost}/${name}` : at`/api/policies/${vhost}/${name}`;
}

function editor({ isOperator, kind, known, policy, keys, vhosts, signal, mayChange }) {
  const usable = keys.filter((key) => key.about !== "nothing" && (!isOperator || key.for_operators));
  const definition = definitionRows(policy.definition, usable, { legend: "Definition", id: "policy-keys" });
  const vhost = known
    ? h("input", { name: "vhost", value: known.vhost, readonly: true })
    : choice("vhost", vhosts, vhosts[0]);
  const applyTo = choice("apply-to", APPLY_TO, policy["apply-to"]);
  const pattern = h("input", {
    name: "pattern",
    class: "mono",
    value: policy.pattern,
    autocomplete: "off",
    spellcheck: "false",
    placeholder: "^orders\\.",
  });
  const matches = matching({ vhost, applyTo, pattern, signal });
  const fields = [
    h(
      "div",
      { class: "row" },
      field("Name", textInput("name", { required: true, value: known?.name ?? "", readonly: Boolean(known) })),
      field("Virtual host", vhost),
    ),
    field("Pattern", pattern, "Regular expression, matched anywhere in the name. Leave empty to match all names."),
    h(
      "div",
      { class: "row" },
      field("Applies to", applyTo),
      field(
        "Priority",
        h("input", { name: "priority", type: "number", step: "1", value: policy.priority }),
        "If two policies contain the same setting, the higher priority wins.",
      ),
    ),
    definition.element,
  ];
  const sending = form(fields, known ? "Save changes" : `Add ${kind}`, async (given) => {
    const name = known?.name ?? given.get("name");
    const body = {
      pattern: given.get("pattern"),
      "apply-to": given.get("apply-to"),
      priority: Number(given.get("priority")),
      definition: definition.value(),
    };
    const made = { vhost: given.get("vhost"), name };
    if (!known) await refuseExisting(isOperator, kind, made);
    await put(addressOf(isOperator, made), body);
    notify(`${isOperator ? "Operator policy" : "Policy"} ${name} saved.`);
    if (!known) go(policyAddress(isOperator, made).slice(1));
  });
  if (!mayChange) freeze(sending);
  return h(
    "div",
    { class: "two" },
    h("div", { class: "card" }, sending),
    section("Matching queues and exchanges", matches),
  );
}

/** A PUT would replace the existing policy. */
async function refuseExisting(isOperator, kind, { vhost, name }) {
  const found = await get(isOperator ? at`/api/operator-policies/${vhost}` : at`/api/policies/${vhost}`, {
    columns: "name",
  });
  if (found.some((one) => one.name === name))
    throw {
      title: "Policy not added",
      reason: `The ${kind} ${name} already exists in ${vhost}: choose another name, or edit the existing one.`,
    };
}

function freeze(sending) {
  for (const control of sending.elements) control.disabled = true;
  sending.querySelector(".actions").remove();
}

function deletePolicy(isOperator, kind, known, leaving) {
  undoable(`The ${kind} ${known.name} will be deleted`, async () => {
    await deleteAndLeave(addressOf(isOperator, known), "/admin/policies", leaving);
    notify(`The ${kind} ${known.name} was deleted.`);
  });
}

/** Updates the matches while the user types. */
function matching({ vhost, applyTo, pattern, signal }) {
  const place = h("div", { class: "card matches", role: "status" });
  let timer = 0;
  let asked = 0;
  const ask = async () => {
    asked += 1;
    const number = asked;
    const question = { pattern: pattern.value, "apply-to": applyTo.value };
    const result = await get(at`/api/policy-matches/${vhost.value}`, question, { signal }).then(matchText, (problem) =>
      problem.name === "AbortError" ? null : problemBox(problem),
    );
    if (number === asked && !signal.aborted) fill(place, result); // discard responses to older input
  };
  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(ask, TYPING);
  };
  pattern.addEventListener("input", soon);
  applyTo.addEventListener("change", soon);
  vhost.addEventListener("change", soon);
  signal.addEventListener("abort", () => clearTimeout(timer));
  ask();
  return place;
}

function matchText({ queues, exchanges, some }) {
  const total = queues + exchanges;
  if (total === 0)
    return h(
      "p",
      {},
      h("strong", {}, "No matches yet. "),
      "The policy also applies to matching queues and exchanges that are declared later.",
    );
  return [
    h(
      "p",
      {},
      h(
        "strong",
        {},
        [queues > 0 && plural(queues, "queue"), exchanges > 0 && plural(exchanges, "exchange")]
          .filter(Boolean)
          .join(" and "),
      ),
    ),
    h(
      "ul",
      { class: "names" },
      some.map((one) => h("li", {}, one.name, " ", h("small", { class: "faint" }, one.kind))),
    ),
    total > some.length && h("p", { class: "faint" }, `and ${plural(total - some.length, "more", "more")}`),
  ];
}
