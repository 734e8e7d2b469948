// The totals of the listed queues: of all, or of those that match the filter.

import { path as at, get } from "../api.js";
import { fill, h } from "../dom.js";
import { number, plural, rate } from "../format.js";
import { listAddress } from "../list_page.js";
import { keptVhost } from "../vhosts.js";

const MOST = 500; // the API's largest page
const COLUMNS =
  "messages_ready,messages_unacknowledged,consumers,message_stats.publish_details.rate," +
  "message_stats.deliver_get_details.rate";

export class QueueTotals {
  constructor() {
    this.element = h("span", { class: "totals", hidden: true });
  }

  /** `answer` is the response to the `question` of the list. */
  async show(answer, question, signal) {
    const totals = await totalsOf(answer, question, signal);
    this.element.hidden = !totals || !answer.filtered_count;
    if (!totals) return;
    fill(
      this.element,
      `Total: ${number(totals.ready)} ready, ${number(totals.unacked)} unacked`,
      totals.consumers !== undefined && `, ${plural(totals.consumers, "consumer")}`,
      `, ${rate(totals.publish)} published, ${rate(totals.deliver)} delivered`,
    );
  }
}

/** Undefined if there are too many rows to add up. */
async function totalsOf(answer, question, signal) {
  if (answer.items.length === answer.filtered_count) return summed(answer.items);
  const { name, use_regex } = question;
  if (answer.filtered_count <= MOST) {
    const query = { page: 1, page_size: MOST, columns: COLUMNS, name, use_regex };
    return summed((await get(listAddress("queues"), query, { signal })).items);
  }
  if (name) return undefined;
  const vhost = keptVhost();
  if (vhost) return ofVhost(await get(at`/api/vhosts/${vhost}`, undefined, { signal }));
  const { queue_totals, object_totals, message_stats } = await get("/api/overview", undefined, { signal });
  return ofVhost({ ...queue_totals, message_stats, consumers: object_totals?.consumers });
}

function ofVhost(row) {
  return {
    ready: row.messages_ready ?? 0,
    unacked: row.messages_unacknowledged ?? 0,
    consumers: row.consumers,
    publish: row.message_stats?.publish_details?.rate ?? 0,
    deliver: row.message_stats?.deliver_get_details?.rate ?? 0,
  };
}

function summed(rows) {
  const sum = (read) => rows.reduce((total, row) => total + (read(row) ?? 0), 0);
  return {
    ready: sum((row) => row.messages_ready),
    unacked: sum((row) => row.messages_unacknowledged),
    consumers: sum((row) => row.consumers),
    publish: sum((row) => row.message_stats?.publish_details?.rate),
    deliver: sum((row) => row.message_stats?.deliver_get_details?.rate),
  };
}
