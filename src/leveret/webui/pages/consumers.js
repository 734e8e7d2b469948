// Consumers of a queue, a channel or the whole broker, and cancelling them.

import { path as at, get, remove } from "../api.js";
import { h } from "../dom.js";
import { objectText } from "../json_object.js";
import { nameLink } from "../layout.js";
import { notify, undoable } from "../notices.js";
import { link } from "../router.js";
import { numeric, rowsSource, Table } from "../table.js";
import { isAdministrator } from "./admin_frame.js";
import { CHANNEL, CONNECTION, prefetch } from "./connection_format.js";

const QUEUE = {
  title: "Queue",
  sort: "queue.name",
  width: "name",
  value: (row) => [row.queue.vhost, row.queue.name],
  show: ([vhost, name]) => nameLink(link`/queues/${vhost}/${name}`, name),
};

/** The consumers in the details of the queue or channel at `address`. `ends`: which columns to show besides. */
export function consumersTable(address, signal, user, ends, options) {
  const load = async (signal) =>
    (await get(address, { columns: "consumer_details" }, { signal })).consumer_details ?? [];
  const table = new Table({
    columns: consumerColumns(user, ends, () => table.refresh()),
    source: rowsSource(load, consumerText),
    signal,
    noun: "consumer",
    ...options,
  });
  return table.element;
}

/** The text that the filter searches. */
export function consumerText({ consumer_tag: tag, queue, channel_details: details }) {
  return [tag, queue.name, details?.connection_name, details?.user_provided_name, details?.user].join(" ");
}

/** `ends` names the ends of the consumer that are shown: queue, channel. */
export function consumerColumns(user, ends, changed) {
  return [
    { title: "Consumer tag", sort: "consumer_tag", width: "name", value: (row) => row.consumer_tag },
    ...(ends.includes("queue") ? [QUEUE] : []),
    ...(ends.includes("channel") ? [CONNECTION, { ...CHANNEL, rank: 2 }] : []),
    { title: "Ack mode", rank: 3, width: "s", value: (row) => (row.ack_required ? "manual" : "automatic") },
    { title: "Prefetch count", rank: 2, align: "right", width: "s", value: prefetchOf },
    { title: "Exclusive", rank: 3, width: "s", value: (row) => (row.exclusive ? "yes" : "no") },
    { title: "Active", rank: 3, width: "s", value: activityOf },
    numeric("Priority", "priority", String, { rank: 5, width: "xs" }),
    { title: "Arguments", rank: 3, width: "arguments", value: (row) => objectText(row.arguments) },
    {
      title: "",
      width: "button",
      align: "right",
      value: ({ consumer_tag: tag, queue, channel_details: details }) => [tag, queue, details?.name, details?.user],
      show: (consumer) => cancelButton(consumer, user, changed),
    },
  ];
}

/** The consumer's own limit, or that of its channel. */
function prefetchOf({ prefetch_count: own, channel_prefetch_count: shared }) {
  return !own && shared ? `${shared} (channel)` : prefetch(own);
}

function activityOf({ active, activity_status: status }) {
  return active === false ? (status ?? "no") : "yes";
}

/** Consumers of other users are cancelled by administrators. */
function cancelButton([tag, queue, channel, owner], user, changed) {
  if (!owner || (owner !== user.name && !isAdministrator(user))) return "";
  const cancel = () =>
    undoable(
      `Consumer ${tag} of queue ${queue.name} will be cancelled`,
      async () => {
        await remove(at`/api/consumers/${queue.vhost}/${channel}/${tag}`);
        notify(`Consumer ${tag} cancelled. Messages that it holds stay unacked until its channel is closed.`);
      },
      changed,
    );
  const label = `Cancel consumer ${tag}`;
  return h(
    "button",
    { type: "button", class: "quiet danger small", "aria-label": label, title: label, onclick: cancel },
    "Cancel",
  );
}
