// The default queue type of a virtual host.

import { choice, field } from "../forms.js";

export const UNDEFINED = "undefined"; // as in the API

export function queueTypeField(value = UNDEFINED) {
  return field(
    "Default queue type",
    choice("default_queue_type", [UNDEFINED, "classic", "quorum", "stream"], value),
    "For durable queues that are declared without x-queue-type.",
  );
}
