// Groups of dead letters: names, links and filters.

import { link } from "../router.js";
import { shownExchange } from "./exchange_links.js";

export const REASONS = {
  rejected: "Rejected by a consumer (requeue=false)",
  expired: "Expired (message TTL)",
  maxlen: "Queue length limit exceeded",
  delivery_limit: "Delivery limit exceeded",
};

const FIELDS = ["vhost", "queue", "reason", "origin_queue", "exchange", "routing_key", "error", "task"];
const REQUIRED = 5; // the first fields have a text; the others may be null: several

export function causeOf(group) {
  return `${group.reason} in ${group.origin_queue}${group.task ? ` (${group.task})` : ""}`;
}

/** The error of all messages of the group, or of some of them. */
export function errorOf(group) {
  if (typeof group.error === "string") return group.error;
  return group.sample_error ? `several, such as ${group.sample_error}` : "";
}

export function wayOf(group) {
  return `${shownExchange(group.exchange)} → ${group.routing_key ?? "several routing keys"}`;
}

/** The fields that identify a group; null for several values. A broker that does not group by task has no `task`. */
export function namesOf(group) {
  const { error, ...others } = group;
  const named = { ...others, error: others.task === undefined ? null : error };
  return Object.fromEntries(FIELDS.map((name) => [name, named[name] ?? null]));
}

/** The filter that selects exactly the messages of the group. */
export function filterOf(group) {
  const filter = { "death.reason": group.reason, "death.queue": group.origin_queue, "death.exchange": group.exchange };
  const names = namesOf(group);
  for (const name of FIELDS.slice(REQUIRED)) if (names[name] !== null) filter[`death.${name}`] = names[name];
  return filter;
}

export function groupLink(group) {
  return link`/dead-letters/${JSON.stringify(Object.values(namesOf(group)))}`;
}

/** The group in a link; null if the link is invalid. */
export function groupOf(text) {
  try {
    const values = JSON.parse(text);
    const isGroup =
      Array.isArray(values) &&
      values.length === FIELDS.length &&
      values.every((value, at) => typeof value === "string" || (value === null && at >= REQUIRED));
    return isGroup ? Object.fromEntries(FIELDS.map((name, at) => [name, values[at]])) : null;
  } catch {
    return null;
  }
}

export function isSameGroup(one, other) {
  return groupLink(one) === groupLink(other);
}
