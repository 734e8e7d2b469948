// Why messages wait in a queue, in plain words, with what helps: read off the numbers that the API gives.

import { isNumber, number, plural, rate } from "../format.js";

/** [{brief, text}] about a row of the list or the whole queue; nothing where all is well. */
export function findingsOf(queue) {
  return [paused(queue), deserted(queue), withSlowConsumers(queue), growing(queue)].filter(Boolean);
}

function paused(queue) {
  if (queue.state !== "paused") return null;
  return {
    brief: "Queue is paused.",
    text: "It accepts messages but does not deliver them. Resume it to continue delivery.",
  };
}

function deserted(queue) {
  const isTakenFrom = queue.message_stats?.deliver_get_details?.rate > 0; // by basic.get, or by leases
  if (queue.type === "stream" || queue.consumers || !queue.messages_ready || isTakenFrom) return null;
  return { brief: "No consumers.", text: `${plural(queue.messages_ready, "message")} ready.` };
}

/**
 * All of them hold as much as they may: the queue waits for them, not they for the queue. Where more is held than that,
 * leases and gets have their part in it, and nobody knows how much is left for the consumers.
 */
function withSlowConsumers(queue) {
  const held = queue.messages_unacknowledged;
  const most = mostHeld(queue.consumer_details);
  if (queue.state === "paused" || queue.type === "stream" || !queue.messages_ready || !most || held !== most)
    return null;
  const text =
    `They have ${number(held)} unacked messages, as many as their prefetch counts allow; ` +
    `${plural(queue.messages_ready, "message")} ready. Add consumers, or make them faster.`;
  return { brief: "Consumers are busy.", text };
}

/** How many messages the consumers may hold together; null if nothing limits one of them, or they are not known. */
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
