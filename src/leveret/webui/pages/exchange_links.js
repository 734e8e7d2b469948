// Names and links of exchanges. The name of the default exchange is empty, which cannot be shown or put into a URL.

import { link } from "../router.js";

export function shownExchange(name) {
  return name || "(AMQP default)";
}

/** The name in a path of the API. */
export function exchangeInPath(name) {
  return name || "amq.default";
}

export function exchangeLink(vhost, name) {
  return link`/exchanges/${vhost}/${exchangeInPath(name)}`;
}

/** Predeclared exchanges cannot be deleted. */
export function isBuiltIn(name) {
  return name === "" || name.startsWith("amq.");
}
