// The end of what a page shows: its page gives way to the list it stood in.

import { remove } from "./api.js";
import { atRest } from "./live.js";
import { go } from "./router.js";

/** Deletes what is at `address` and goes to its `list`, unless its page was left already: then `leaving` is aborted. */
export async function end(address, list, leaving, options) {
  await atRest(() => remove(address, options));
  if (!leaving.aborted) go(list);
}
