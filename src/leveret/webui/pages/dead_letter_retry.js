// Dialog that returns dead letters to the queues they were first dead-lettered from, optionally at a limited rate.

import { h } from "../dom.js";
import { plural } from "../format.js";
import { dialog, field, form } from "../forms.js";
import { begin, rateInput, rateOf } from "../jobs.js";

/** `targets` are {vhost, queue, job, messages}: `job` selects the messages. `jobs` shows the progress. */
export function retryDialog(what, targets, jobs) {
  const messages = targets.reduce((sum, target) => sum + target.messages, 0);
  const content = form(
    [
      h(
        "p",
        {},
        `${plural(messages, "message")} will be returned to the queue they were first dead-lettered from. ` +
          "Messages that fail again are dead-lettered again and reappear here.",
      ),
      field(
        "Messages per second",
        rateInput(),
        targets.length > 1
          ? `For each of ${targets.length} queues. Leave empty for no limit.`
          : "Leave empty for no limit.",
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
  const close = dialog(`Retry ${what}`, content);
}
