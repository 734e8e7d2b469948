// Groups of dead letters: names, links and filters.

import { link } from "../router.js";
import { shownExchange } from "./exchange_links.js";

export const REASONS = {
  rejected: "Rejected by a consumer (requeue=false)",
  expired: "Expired (message TTL)",
  maxlen: "Queue length limit exceeded",
  delivery_limit: "Delivery limit exceeded",
};

const FIELDS = ["vhost", "queue", "reason", "origin_queue", "exchange", "routing_key"];

export function causeOf(group) {
  return `${group.reason} in ${group.origin_queue}`;
}

export function wayOf(group) {
  return `${shownExchange(group.exchange)} → ${group.routing_key ?? "several routing keys"}`;
}

/** The fields that identify a group. */
export function namesOf(group) {
  return Object.fromEntries(FIELDS.map((name) => [name, group[name]]));
}

/** The filter that selects exactly the messages of the group. */
export function filterOf(group) {
  const filter = { "death.reason": group.reason, "death.queue": group.origin_queue, "death.exchange": group.exchange };
  if (group.routing_key !== null) filter["death.routing_key"] = group.routing_key;
  return filter;
}

export function groupLink(group) {
  return link`/dead-letters/${JSON.stringify(FIELDS.map((name) => group[name]))}`;
}

/** The group in a link; null if the link is invalid. */
export function groupOf(text) {
  try {
    const values = JSON.parse(text);
    const isGroup =
      Array.isArray(values) &&
      values.length === FIELDS.length &&
      values.every((value, at) => typeof value === "string" || (value === null && at === 5));
    return isGroup ? Object.fromEntries(FIELDS.map((name, at) => [name, values[at]])) : null;
  } catch {
    return null;
  }
}

export function isSameGroup(one, other) {
  return FIELDS.every((name) => one[name] === other[name]);
}
