// Why messages are waiting in a queue, and what helps, derived from the numbers of the API.

import { isNumber, number, plural, rate } from "../format.js";

/**
 * Findings for a queue, or a row of the list of queues; empty if all is well.
 * @returns {{ brief: string, text: string }[]}
 */
export function findingsOf(queue) {
  return [paused(queue), withoutConsumers(queue), withSlowConsumers(queue), growing(queue)].filter(
    (finding) => finding !== null,
  );
}

function paused(queue) {
  if (queue.state !== "paused") return null;
  return {
    brief: "Queue is paused.",
    text: "It accepts messages but does not deliver them. Resume it to continue delivery.",
  };
}

function withoutConsumers(queue) {
  const isTakenFrom = queue.message_stats?.deliver_get_details?.rate > 0; // by basic.get or leases
  if (queue.type === "stream" || queue.consumers || !queue.messages_ready || isTakenFrom) return null;
  return { brief: "No consumers.", text: `${plural(queue.messages_ready, "message")} ready.` };
}

/**
 * All consumers have reached their prefetch counts. If there are more unacked messages than that, some of them belong
 * to leases or basic.get, and the share of the consumers is unknown.
 */
function withSlowConsumers(queue) {
  const held = queue.messages_unacknowledged;
  if (queue.state === "paused" || queue.type === "stream" || !queue.messages_ready || !isBusy(queue)) return null;
  const text =
    `They have ${number(held)} unacked messages, as many as their prefetch counts allow; ` +
    `${plural(queue.messages_ready, "message")} ready. Add consumers, or make them faster.`;
  return { brief: "Consumers are busy.", text };
}

/** By the broker's own field; without it, by the prefetch counts. */
function isBusy(queue) {
  if (queue.consumers_busy !== undefined) return queue.consumers_busy;
  const most = mostHeld(queue.consumer_details);
  return Boolean(most) && queue.messages_unacknowledged === most;
}

/** The sum of the prefetch counts; null if a consumer has none, or the consumers are unknown. */
function mostHeld(consumers) {
  if (!consumers?.length || !consumers.every((one) => one.ack_required && one.prefetch_count)) return null;
  return consumers.reduce((sum, one) => sum + one.prefetch_count, 0);
}

function growing(queue) {
  const [incoming, outgoing] = ["publish_details", "deliver_get_details"].map(
    (name) => queue.message_stats?.[name]?.rate,
  );
  if (queue.type === "stream" || !queue.consumers || !queue.messages_ready || isNumber(queue.drain_estimate))
    return null;
  if (!isNumber(incoming) || !isNumber(outgoing) || incoming <= outgoing * 1.1) return null;
  return {
    brief: "Publish rate exceeds deliver rate.",
    text: `${rate(incoming)} published, ${rate(outgoing)} delivered.`,
  };
}
