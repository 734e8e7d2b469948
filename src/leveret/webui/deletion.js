// Deletes the object that a page shows, then opens the list of such objects.

import { remove } from "./api.js";
import { withoutPolling } from "./poll.js";
import { go } from "./router.js";

/**
 * Deletes the object at `address` and opens `list`, unless the user has left the page (`leaving` is aborted).
 * @param {string} address
 * @param {string} list
 * @param {AbortSignal} leaving
 * @param {import("./api.js").Options} [options]
 */
export async function deleteAndLeave(address, list, leaving, options) {
  await withoutPolling(() => remove(address, options));
  if (!leaving.aborted) go(list);
}
