// The alarms in effect, above every page.

import { get } from "./api.js";
import { fillFor, h } from "./dom.js";
import { bytes, isNumber } from "./format.js";
import { poll } from "./poll.js";

/**
 * A row of /api/alarms. Users who may not monitor the node get no numbers.
 * @typedef {{ node: string, resource: string, reason: string, used?: number, free?: number, limit?: number }} Alarm
 */

/** @param {AbortSignal} signal */
export function alarmBanner(signal) {
  const element = h("div", { class: "alarms" });
  poll(signal, async () => {
    /** @type {Alarm[]} */
    const alarms = await get("/api/alarms", undefined, { signal });
    fillFor(element, alarms, () => alarms.map(alarmBox));
  });
  return element;
}

/** @param {Alarm} alarm */
function alarmBox(alarm) {
  return h(
    "div",
    { class: "problem", role: "alert" },
    h("strong", {}, `${titleOf(alarm.resource)} on node ${alarm.node}`),
    h("p", {}, textOf(alarm)),
  );
}

/** @param {string} resource */
function titleOf(resource) {
  return `${resource.charAt(0).toUpperCase()}${resource.slice(1)} alarm`;
}

/** @param {Alarm} alarm */
function textOf({ resource, reason, used, free, limit }) {
  if (resource === "memory" && isNumber(used))
    return (
      `Memory use ${bytes(used)} is above the high watermark of ${bytes(limit)}: publishers are blocked. ` +
      "Let consumers catch up, or raise memory_high_watermark."
    );
  if (resource === "disk" && isNumber(free))
    return (
      `Free disk space ${bytes(free)} is below the limit of ${bytes(limit)}: publishers are blocked. ` +
      "Free some disk space, or lower disk_free_limit."
    );
  return `${reason.charAt(0).toUpperCase()}${reason.slice(1)}: publishers are blocked.`;
}
