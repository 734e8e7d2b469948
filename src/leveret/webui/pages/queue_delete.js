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
        h("p", { class: "typed-name" }, "Type ", h("code", {}, name), " to go on."),
        field("Name of the queue", typed),
      ],
    ],
    "Delete for good",
    async () => {
      await end(address, "/queues", leaving);
      close();
      tell(`Queue ${name} is deleted.`);
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
    ? `Its ${plural(messages, "message")} and its bindings go too.`
    : "It is empty. Its bindings go too.";
  return `${lost}${consumers ? ` ${plural(consumers, "consumer")} ${consumers === 1 ? "is" : "are"} told that it is gone.` : ""} Nothing brings it back.`;
}
