// Links and texts of policies.

import { shownValue } from "../definition_rows.js";
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
