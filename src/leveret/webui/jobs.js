// Jobs on the messages of a queue: dry run, start, progress, cancel.

import { path as at, get, post, remove } from "./api.js";
import { h, setText } from "./dom.js";
import { number, plural } from "./format.js";
import { notify, notifyError } from "./notices.js";
import { poll } from "./poll.js";

const WATCHING = 500; // polling interval in milliseconds while a job runs
const COUNTING = [30, 60, 120, 250]; // the same while a dry run counts

/**
 * A row of /api/queue-jobs.
 * @typedef {object} Job
 * @property {string} id
 * @property {string} vhost
 * @property {string} queue
 * @property {string} kind
 * @property {string} state
 * @property {boolean} dry_run
 * @property {number} done
 * @property {number} skipped
 * @property {number} examined
 * @property {number} messages
 * @property {string} [destination]
 * @property {string} [destination_vhost]
 * @property {number} [rate]
 * @property {number} [limit]
 * @property {number} [ids]
 */

/** @type {Record<string, { title: string, doing: string, did: string, would: string }>} */
export const WORDS = {
  move: { title: "Move", doing: "Moving", did: "Moved", would: "Would move" },
  copy: { title: "Copy", doing: "Copying", did: "Copied", would: "Would copy" },
  delete: { title: "Delete", doing: "Deleting", did: "Deleted", would: "Would delete" },
  redrive: { title: "Retry", doing: "Retrying", did: "Retried", would: "Would retry" },
};

/**
 * Why a job skips messages.
 * @type {Record<string, string>}
 */
export const SKIPPED = {
  move: "no queue accepted them",
  copy: "no queue accepted them",
  delete: "they were no longer in the queue",
  redrive: "they are not dead-lettered, their queue no longer exists, or they were retried 10 times already",
};

/**
 * Starts a job {kind, ...} on the messages of a queue; returns its ID.
 * @param {string} vhost
 * @param {string} queue
 * @param {Record<string, unknown>} job
 */
export async function begin(vhost, queue, job) {
  return (await post(at`/api/queues/${vhost}/${queue}/jobs`, job)).id;
}

/**
 * Runs the job as a dry run; returns its result.
 * @param {string} vhost
 * @param {string} queue
 * @param {Record<string, unknown>} job
 */
export async function counted(vhost, queue, job) {
  const id = await begin(vhost, queue, { ...job, dry_run: true });
  const address = at`/api/queue-jobs/${id}`;
  for (let look = 0; ; look += 1) {
    const row = await get(address);
    if (row.state !== "running") {
      await remove(address).catch(() => {}); // the broker removes finished jobs later anyway
      return row;
    }
    await new Promise((resolve) => setTimeout(resolve, COUNTING[Math.min(look, COUNTING.length - 1)]));
  }
}

/** A card of running jobs, hidden if there are none. `isOurs(row)` selects jobs; `whenOver` is called as each ends. */
export class RunningJobs {
  /** @type {Map<string, Line>} */
  #lines = new Map(); // by ID
  /** @type {Map<string, number>} */
  #expected = new Map(); // ID -> number of messages, of jobs started here
  #isOurs;
  #whenOver;
  #timer = 0;

  /**
   * @param {AbortSignal} signal
   * @param {(row: Job) => boolean} isOurs
   * @param {(row: Job) => void} [whenOver]
   */
  constructor(signal, isOurs, whenOver) {
    this.#isOurs = isOurs;
    this.#whenOver = whenOver;
    this.list = h("div", {});
    this.element = h(
      "section",
      { class: "card jobs", hidden: true, "aria-label": "Running jobs" },
      h("h2", {}, "Running jobs"),
      this.list,
    );
    this.refresh = poll(signal, async () => this.#show(await get("/api/queue-jobs", undefined, { signal }), signal));
    signal.addEventListener("abort", () => clearTimeout(this.#timer));
  }

  /**
   * Shows the job's end, even if it ends before the next poll.
   * @param {string} id
   * @param {number} expected
   */
  watch(id, expected) {
    this.#expected.set(id, expected);
    this.refresh();
  }

  /**
   * @param {Job[]} rows
   * @param {AbortSignal} signal
   */
  #show(rows, signal) {
    const ours = rows.filter((row) => this.#isOurs(row) && !row.dry_run);
    for (const row of ours) {
      if (row.state === "running") this.#line(row).show(row, this.#expected.get(row.id));
      else if (this.#lines.has(row.id) || this.#expected.has(row.id)) this.#end(row);
    }
    for (const [id, line] of this.#lines) {
      if (!ours.some((row) => row.id === id)) this.#forget(id, line); // removed by another user
    }
    this.element.hidden = this.#lines.size === 0;
    clearTimeout(this.#timer);
    if (this.#lines.size && !signal.aborted) this.#timer = setTimeout(this.refresh, WATCHING);
  }

  /** @param {Job} row */
  #line(row) {
    const known = this.#lines.get(row.id);
    if (known) return known;
    const line = new Line(row, () => this.#cancel(row.id));
    this.#lines.set(row.id, line);
    this.list.append(line.element);
    return line;
  }

  /** @param {string} id */
  async #cancel(id) {
    await remove(at`/api/queue-jobs/${id}`).catch(notifyError);
    this.refresh();
  }

  /** @param {Job} row */
  #end(row) {
    this.#forget(row.id, this.#lines.get(row.id));
    notifyEnd(row);
    this.#whenOver?.(row);
  }

  /**
   * @param {string} id
   * @param {Line | undefined} line
   */
  #forget(id, line) {
    line?.element.remove();
    this.#lines.delete(id);
    this.#expected.delete(id);
  }
}

class Line {
  /**
   * @param {Job} row
   * @param {() => void} cancel
   */
  constructor(row, cancel) {
    this.text = h("span", {});
    this.bar = h("progress", { max: 1, value: 0, "aria-label": `${WORDS[row.kind].doing} messages from ${row.queue}` });
    this.element = h(
      "div",
      { class: "job" },
      h("div", {}, this.text, this.bar),
      h("button", { type: "button", onclick: cancel }, "Cancel"),
    );
  }

  /**
   * @param {Job} row
   * @param {number | undefined} expected
   */
  show(row, expected) {
    const whole = expected ?? row.ids ?? row.limit;
    const share = Math.max(row.examined / Math.max(row.messages, 1), whole ? row.done / whole : 0);
    this.bar.value = Math.min(share, 1);
    const how = [row.destination && `to ${destinationOf(row)}`, row.rate && `at ${row.rate.toLocaleString("en-US")}/s`]
      .filter(Boolean)
      .join(" ");
    setText(
      this.text,
      `${WORDS[row.kind].doing} messages from ${row.queue}${how ? ` ${how}` : ""}: ` +
        `${number(row.done)}${whole ? ` of ${number(whole)}` : ""}`,
    );
  }
}

/**
 * With its virtual host if it is another one.
 * @param {Job} row
 */
function destinationOf({ vhost, destination, destination_vhost: other }) {
  return other && other !== vhost ? `${destination} in ${other}` : destination;
}

/** @param {Job} row */
function notifyEnd(row) {
  const destination = row.destination ? ` to ${destinationOf(row)}` : "";
  const what = `${WORDS[row.kind].did} ${plural(row.done, "message")} from ${row.queue}${destination}`;
  const skipped = row.skipped ? ` ${plural(row.skipped, "message")} skipped: ${SKIPPED[row.kind]}.` : "";
  if (row.state === "lost")
    notifyError({
      title: "Write to disk failed",
      reason: `${what}, but the change may not be on disk. Check the broker's log.`,
    });
  else if (row.state === "cancelled") notify(`Job cancelled. ${what} before it stopped.${skipped}`);
  else notify(`${what}.${skipped}`);
}

/**
 * The rate field of a form in messages per second; empty for no limit.
 * @param {import("./forms.js").Given} given
 */
export function rateOf(given) {
  const text = String(given.get("rate") ?? "").trim();
  return text ? { rate: Number(text) } : {};
}

export function rateInput() {
  return h("input", {
    name: "rate",
    type: "number",
    min: "0.001",
    max: "1000000",
    step: "any",
    placeholder: "unlimited",
  });
}
