// Dialog that deletes a queue. If the queue has messages, the user types its name to confirm.

import { get } from "../api.js";
import { deleteAndLeave } from "../deletion.js";
import { plural } from "../format.js";
import { deletionDialog } from "../forms.js";
import { notify, notifyError } from "../notices.js";

export async function deleteDialog(address, name, leaving) {
  const queue = await get(address, { columns: "messages,consumers" }).catch(notifyError); // as of now, not as shown
  if (!queue) return;
  const act = async () => {
    await deleteAndLeave(address, "/queues", leaving);
    notify(`Queue ${name} deleted.`);
  };
  deletionDialog({ kind: "queue", name, text: effectsOn(queue), label: queue.messages > 0 && "Queue name", act });
}

function effectsOn({ messages, consumers }) {
  const lost = messages
    ? `This deletes the queue, its ${plural(messages, "message")} and its bindings.`
    : "This deletes the queue and its bindings. The queue is empty.";
  return `${lost}${consumers ? ` ${plural(consumers, "consumer")} will be cancelled.` : ""}`;
}
