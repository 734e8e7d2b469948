// Exchanges by name. The default exchange is called "", which is nothing to read and nothing to put in an address.

import { link } from "../router.js";

export function shownExchange(name) {
  return name || "(AMQP default)";
}

/** As the API takes it in a path. */
export function exchangeInPath(name) {
  return name || "amq.default";
}

export function exchangeLink(vhost, name) {
  return link`/exchanges/${vhost}/${exchangeInPath(name)}`;
}

/** Those the broker brings along are there for ever. */
export function isBuiltIn(name) {
  return name === "" || name.startsWith("amq.");
}
