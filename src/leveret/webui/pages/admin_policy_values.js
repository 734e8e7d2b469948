// Converts values of policy definitions between text fields and the API.

import { link } from "../router.js";

/** The link of a policy or operator policy. */
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

/** The inverse of `typedValue`. */
export function editableValue(value, key) {
  if (typeof value !== "string" || typedValue(value, key) === value) return shownValue(value);
  return JSON.stringify(value);
}

/** Text for keys that take text; otherwise JSON, or text if it is not valid JSON. */
export function typedValue(text, key) {
  if (key?.takes_text) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
