// Several queues at once: pause, resume, purge and delete. Each queue is one request, with its own permission check.

import { path as at, post, remove } from "../api.js";
import { h } from "../dom.js";
import { number, plural } from "../format.js";
import { deletionDialog } from "../forms.js";
import { notify, notifyError, undoable } from "../notices.js";
import { withoutPolling } from "../poll.js";
import { forEachRow, selectionBar } from "../row_selection.js";

/** The largest page of the API. */
export const MOST_SELECTED = 500;
const NAMED = 10; // of the queues that failed

const addressOf = (row) => at`/api/queues/${row.vhost}/${row.name}`;

/**
 * A bar for the selected rows. `done()` is called after each action. `matching` is the number of queues that match the
 * filter if they are too many to be selected, else 0.
 */
export function queueActions(done, clear) {
  const button = (text, kind, onclick) => h("button", { type: "button", class: kind, onclick }, text);
  return selectionBar((rows, matching) => [
    h("strong", {}, `${plural(rows.length, "queue")} selected`),
    matching > 0 && h("span", {}, `of ${number(matching)} that match: at most ${MOST_SELECTED} are selected at once`),
    button("Pause", "", () => run(rows, "paused", (row) => post(`${addressOf(row)}/pause`), done)),
    button("Resume", "", () => run(rows, "resumed", (row) => post(`${addressOf(row)}/resume`), done)),
    button("Purge", "danger", () => purge(rows, done)),
    button("Delete …", "danger", () => deleteAll(rows, done)),
    button("Clear selection", "quiet", clear),
  ]);
}

async function run(rows, did, act, done) {
  const failed = await withoutPolling(() => forEachRow(rows, act));
  const succeeded = rows.length - failed.length;
  if (succeeded) notify(`${plural(succeeded, "queue")} ${did}.`);
  if (failed.length) notifyError(reportOf(failed, did));
  done();
}

function reportOf(failed, did) {
  const [{ row, problem }] = failed;
  const named = failed.slice(1, 1 + NAMED).map(({ row }) => row.name);
  const others = failed.length - 1 - named.length;
  const more = named.length
    ? ` Also not ${did}: ${named.join(", ")}${others ? ` and ${number(others)} more` : ""}.`
    : "";
  return {
    title: `${plural(failed.length, "queue")} not ${did}`,
    reason: `Queue ${row.name} in ${row.vhost}: ${problem.reason ?? problem}.${more}`,
  };
}

const messagesIn = (rows, field) => rows.reduce((sum, row) => sum + (row[field] ?? 0), 0);

function purge(rows, done) {
  const queues = rows.filter((row) => row.type !== "stream"); // messages leave a stream by retention only
  const streams = rows.length - queues.length;
  if (!queues.length) {
    const reason = "Streams cannot be purged: their messages are removed by retention (x-max-age, x-max-length-bytes).";
    notifyError({ title: "Nothing to purge", reason });
    return;
  }
  const lost = plural(messagesIn(queues, "messages_ready"), "message");
  const kept = streams ? `${plural(streams, "stream")} cannot be purged. ` : "";
  const act = () => run(queues, "purged", (row) => remove(`${addressOf(row)}/contents`), done);
  undoable(`${kept}${lost} in ${plural(queues.length, "queue")} will be deleted`, act);
}

/** A queue that is shown as empty is deleted only if it still is. */
const deleteOne = (row) => remove(row.messages ? addressOf(row) : `${addressOf(row)}?if-empty=true`);

function deleteAll(rows, done) {
  const messages = messagesIn(rows, "messages");
  const queues = plural(rows.length, "queue");
  const act = () => run(rows, "deleted", deleteOne, done);
  if (!messages) {
    undoable(`${queues} will be deleted`, act);
    return;
  }
  deletionDialog({
    kind: "queues",
    name: String(rows.length),
    title: `Delete ${queues}`,
    text: `This deletes ${queues}, ${plural(messages, "message")} and their bindings.`,
    label: "Number of queues",
    act,
  });
}
