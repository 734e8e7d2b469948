// The features of a queue as badges: short ones in the list, as in RabbitMQ, and long ones on the page of the queue.

import { bytes, duration, number } from "../format.js";
import { shownExchange } from "./exchange_links.js";

const after = (milliseconds) => duration(milliseconds / 1000);

/**
 * Name of the badge, argument, policy key, and the text with its value.
 * @type {[string, string, string, (value: any) => string | false][]}
 */
const BY_ARGUMENT = [
  ["TTL", "x-message-ttl", "message-ttl", (value) => `message TTL ${after(value)}`],
  ["Exp", "x-expires", "expires", (value) => `deleted after ${after(value)} without use`],
  ["Lim", "x-max-length", "max-length", (value) => `max length ${number(value)}`],
  ["Lim B", "x-max-length-bytes", "max-length-bytes", (value) => `max size ${bytes(value)}`],
  ["Ovfl", "x-overflow", "overflow", (value) => `overflow ${value}`],
  ["DLX", "x-dead-letter-exchange", "dead-letter-exchange", (value) => `dead-letter exchange ${shownExchange(value)}`],
  ["DLK", "x-dead-letter-routing-key", "dead-letter-routing-key", (value) => `dead-letter routing key ${value}`],
  ["Pri", "x-max-priority", "max-priority", (value) => `priorities 0 to ${value}`],
  ["SAC", "x-single-active-consumer", "single-active-consumer", (value) => value && "single active consumer"],
  ["DLim", "x-delivery-limit", "delivery-limit", (value) => value >= 0 && `delivery limit ${number(value)}`],
  ["ATO", "x-consumer-timeout", "consumer-timeout", (value) => `ack timeout ${after(value)}`],
  ["Retry", "x-retry-delays", "retry-delays", (value) => `retries after ${value.map(after).join(", ")}`],
  ["Retry", "x-retry-delay-min", "retry-delay-min", (value) => `retries after ${after(value)} or more`],
  ["Dedup", "x-message-deduplication", "message-deduplication", (value) => value && "deduplication"],
  ["Grp", "x-message-groups", "message-groups", (value) => value && "message groups"],
  ["Age", "x-max-age", "max-age", (value) => `max age ${value}`],
];
const KNOWN = new Set(["x-queue-type", ...BY_ARGUMENT.map(([, argument]) => argument)]);

/**
 * The features of a queue, or of a row of the list of queues. The type and the state are not among them.
 * @returns {{ brief: string, text: string }[]}
 */
export function featuresOf(queue) {
  const table = queue.arguments ?? {};
  const others = Object.keys(table).filter((name) => !KNOWN.has(name));
  return [
    queue.durable && { brief: "D", text: "durable" },
    queue.auto_delete && { brief: "AD", text: "auto-delete" },
    queue.exclusive && { brief: "Excl", text: "exclusive" },
    ...BY_ARGUMENT.map((feature) => setIn(queue, feature)),
    others.length > 0 && {
      brief: "Args",
      text: others.map((name) => `${name} ${JSON.stringify(table[name])}`).join(", "),
    },
    queue.policy && { brief: queue.policy, text: `policy ${queue.policy}` },
    queue.operator_policy && { brief: queue.operator_policy, text: `operator policy ${queue.operator_policy}` },
  ].filter(Boolean);
}

/** A limit may be in both: the smaller one holds, and the policy's definition has it. */
function setIn(queue, [brief, argument, key, text]) {
  const [own, policy] = [queue.arguments?.[argument], queue.effective_policy_definition?.[key]];
  const both = [own, policy].filter((value) => value !== undefined && value !== null);
  if (!both.length) return null;
  const value = both.every((one) => typeof one === "number") ? Math.min(...both) : both[0];
  const shown = text(value);
  return shown ? { brief, text: shown } : null;
}
