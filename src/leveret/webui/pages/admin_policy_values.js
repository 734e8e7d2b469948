// The definition of a policy between what somebody types and what the broker takes.

import { link } from "../router.js";

/** "#/admin/policies/..." of a policy of either kind. */
export function policyAddress(isOperator, { vhost, name }) {
  return link`/admin/policies/${isOperator ? "operator" : "policy"}/${vhost}/${name}`;
}

/** "max-length=1000, overflow=reject-publish" */
export function definitionText(definition) {
  return Object.entries(definition)
    .map(([key, value]) => `${key}=${shownValue(value)}`)
    .join(", ");
}

export function shownValue(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** For a field: what `typedValue` makes the same value of. */
export function editableValue(value, key) {
  if (typeof value !== "string" || typedValue(value, key) === value) return shownValue(value);
  return JSON.stringify(value);
}

/** A key that takes text has it as it stands; others have numbers, true, false or lists, and words where those fail. */
export function typedValue(text, key) {
  if (key?.takes_text) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
