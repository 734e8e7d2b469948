// Dialog that deletes a queue. If the queue has messages, the user types its name to confirm.

import { get } from "../api.js";
import { deleteAndLeave } from "../deletion.js";
import { plural } from "../format.js";
import { check, deletionDialog } from "../forms.js";
import { notify, notifyError } from "../notices.js";

/** Opens `list` after the deletion. */
export async function deleteDialog(address, name, leaving, list = "/queues") {
  const queue = await get(address, { columns: "messages,consumers" }).catch(notifyError); // as of now, not as shown
  if (!queue) return;
  const act = async (given) => {
    const conditions = ["if-empty", "if-unused"].filter((one) => given.has(one)).map((one) => `${one}=true`);
    await deleteAndLeave(conditions.length ? `${address}?${conditions.join("&")}` : address, list, leaving);
    notify(`Queue ${name} deleted.`);
  };
  deletionDialog({
    kind: "queue",
    name,
    text: effectsOn(queue),
    label: queue.messages > 0 && "Queue name",
    fields: [
      check("Only if it has no messages", "if-empty", queue.messages === 0),
      check("Only if it has no consumers", "if-unused", queue.consumers === 0),
    ],
    act,
  });
}

function effectsOn({ messages, consumers }) {
  const lost = messages
    ? `This deletes the queue, its ${plural(messages, "message")} and its bindings.`
    : "This deletes the queue and its bindings. The queue is empty.";
  return `${lost}${consumers ? ` ${plural(consumers, "consumer")} will be cancelled.` : ""}`;
}
