// The end of a queue. Whoever deletes messages with it types its name.

import { get } from "../api.js";
import { h } from "../dom.js";
import { end } from "../ending.js";
import { dialogue, field, form } from "../forms.js";
import { plural } from "../format.js";
import { tell, tellError } from "../notices.js";

export async function deleteDialogue(address, name, leaving) {
  let queue = null;
  try {
    queue = await get(address, { columns: "messages,consumers" }); // as it is now, not as it was shown
  } catch (problem) {
    tellError(problem);
    return;
  }
  const typed = h("input", { name: "typed", required: true, autocomplete: "off", spellcheck: "false" });
  const sending = form(
    [
      h("p", {}, goesWithIt(queue)),
      queue.messages > 0 && [
        h("p", { class: "typed-name" }, "Type ", h("code", {}, name), " to confirm."),
        field("Queue name", typed),
      ],
    ],
    "Delete queue",
    async () => {
      await end(address, "/queues", leaving);
      close();
      tell(`Queue ${name} deleted.`);
    },
  );
  const action = sending.querySelector("[type=submit]");
  action.classList.add("danger-strong");
  action.disabled = queue.messages > 0;
  typed.addEventListener("input", () => {
    action.disabled = typed.value !== name;
  });
  const close = dialogue(`Delete queue ${name}`, sending);
}

function goesWithIt({ messages, consumers }) {
  const lost = messages
    ? `This deletes the queue, its ${plural(messages, "message")} and its bindings.`
    : "This deletes the queue and its bindings. The queue is empty.";
  const cancelled = consumers ? ` ${plural(consumers, "consumer")} will be cancelled.` : "";
  return `${lost}${cancelled} It cannot be undone.`;
}
