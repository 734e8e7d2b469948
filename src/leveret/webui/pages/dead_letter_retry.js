// Dead letters go back to the queues in which they died: at once, or so many a second that nobody is overrun.

import { h } from "../dom.js";
import { dialogue, field, form } from "../forms.js";
import { plural } from "../format.js";
import { begin, rateInput, rateOf } from "../jobs.js";

/** `targets` are {vhost, queue, job, messages}: `job` picks the messages. `jobs` watches what is begun. */
export function retryDialogue(what, targets, jobs) {
  const messages = targets.reduce((sum, target) => sum + target.messages, 0);
  const content = form(
    [
      h(
        "p",
        {},
        `${plural(messages, "message")} will go back to where they died first, and be delivered again. What died there a second time comes back here.`,
      ),
      field(
        "Messages a second",
        rateInput(),
        targets.length > 1
          ? `For each of ${targets.length} queues. Leave it empty to send them as fast as it goes.`
          : "Leave it empty to send them as fast as it goes.",
      ),
    ],
    `Retry ${plural(messages, "message")}`,
    async (given) => {
      for (const { vhost, queue, job, messages: expected } of targets) {
        jobs.watch(await begin(vhost, queue, { kind: "redrive", ...job, ...rateOf(given) }), expected);
      }
      close();
    },
  );
  const close = dialogue(`Retry ${what}`, content);
}
