// Dead letters grouped by cause, and their retry.

import { get } from "../api.js";
import { fill, h } from "../dom.js";
import { ago, number, plural } from "../format.js";
import { RunningJobs } from "../jobs.js";
import { badge, emptyCard, nameLink, nameText, pageHead } from "../layout.js";
import { listAddress, listTable } from "../list_page.js";
import { go, link } from "../router.js";
import { rowsSource } from "../table.js";
import { causeOf, errorOf, filterOf, groupLink, namesOf, REASONS, wayOf } from "./dead_letter_groups.js";
import { retryDialog } from "./dead_letter_retry.js";

export const path = "/dead-letters";
export const nav = "Dead letters";
export const title = () => "Dead letters";

export function show(place, _parameters, signal) {
  const page = new Page(signal);
  fill(place, page.head, page.jobs.element, page.tiles, page.table.element, page.notes);
}

class Page {
  /** @type {{ groups: any[], queues: any[], is_complete: boolean }} */
  #answer = { groups: [], queues: [], is_complete: true };

  constructor(signal) {
    this.retry = h(
      "button",
      { type: "button", class: "strong", disabled: true, onclick: () => this.#retryAll() },
      "Retry all …",
    );
    this.head = pageHead("Dead letters", null, this.retry);
    this.tiles = h("div", { class: "tiles", hidden: true });
    this.notes = h("div", { class: "faint" });
    this.jobs = new RunningJobs(
      signal,
      (row) => row.kind !== "copy",
      () => this.table.refresh(),
    );
    this.table = listTable({
      columns: this.#columns(),
      source: rowsSource(
        (signal) => this.#load(signal),
        (row) =>
          [row.reason, row.origin_queue, row.queue, row.exchange, row.routing_key, row.task, errorOf(row)].join(" "),
      ),
      signal,
      sort: "messages",
      reverse: true,
      noun: "cause",
      emptiness: () => this.#answer.queues.map((queue) => queue.name),
      empty: noDeadLetters,
    });
  }

  async #load(signal) {
    this.#answer = await get(listAddress("dead-letters"), undefined, { signal });
    const { groups } = this.#answer;
    this.most = groups.reduce((most, group) => Math.max(most, group.messages), 1);
    this.retry.disabled = !groups.length;
    this.#notify();
    return groups.map((group) => ({ ...group, share: group.messages / this.most }));
  }

  #notify() {
    const { groups, queues, is_complete: isComplete } = this.#answer;
    const dead = groups.reduce((sum, group) => sum + group.messages, 0);
    this.tiles.hidden = !groups.length;
    fill(
      this.tiles,
      tile("Dead letters", `${number(dead)}${isComplete ? "" : " +"}`),
      tile("Causes", number(groups.length)),
      tile(
        "Dead-letter queues",
        number(new Set(groups.map((group) => JSON.stringify([group.vhost, group.queue]))).size),
      ),
      tile("Latest", since(groups.reduce((latest, group) => Math.max(latest, group.newest ?? 0), 0))),
    );
    fill(
      this.notes,
      notesOn(queues).map((text) => h("p", {}, text)),
    );
  }

  #columns() {
    return [
      {
        title: "Cause",
        sort: "origin_queue",
        width: "name",
        value: namesOf,
        show: (group) =>
          h(
            "a",
            { href: groupLink(group) },
            badge(group.reason, "warn", REASONS[group.reason] ?? group.reason),
            " ",
            nameText(group.origin_queue),
            group.task && ` ${group.task}`,
          ),
      },
      {
        title: "Messages",
        sort: "messages",
        align: "right",
        width: "bar",
        value: (row) => [row.messages, row.share],
        show: counted,
      },
      { title: "Published to", sort: "exchange", rank: 2, value: wayOf },
      { title: "Error", sort: "error", rank: 2, value: errorOf },
      { title: "Latest", sort: "newest", align: "right", rank: 2, width: "latest", value: (row) => since(row.newest) },
      {
        title: "Dead-letter queue",
        sort: "queue",
        rank: 2,
        value: (row) => [row.vhost, row.queue],
        show: ([vhost, name]) => nameLink(link`/queues/${vhost}/${name}`, name),
      },
      {
        title: "",
        width: "retry",
        align: "right",
        value: (row) => ({ ...namesOf(row), messages: row.messages }),
        show: (group) =>
          h(
            "button",
            {
              type: "button",
              class: "small",
              "aria-label": `Retry ${causeOf(group)}`,
              onclick: () => this.#retryGroup(group),
            },
            "Retry …",
          ),
      },
    ];
  }

  #retryGroup(row) {
    retryDialog(
      causeOf(row),
      [{ vhost: row.vhost, queue: row.queue, job: filterOf(row), messages: row.messages }],
      this.jobs,
    );
  }

  #retryAll() {
    const byQueue = new Map();
    for (const { vhost, queue, messages } of this.#answer.groups) {
      const key = JSON.stringify([vhost, queue]);
      byQueue.set(key, { vhost, queue, job: {}, messages: messages + (byQueue.get(key)?.messages ?? 0) });
    }
    retryDialog("all dead letters", [...byQueue.values()], this.jobs);
  }
}

function tile(label, value) {
  return h("div", { class: "tile" }, h("span", {}, label), h("b", {}, value));
}

function since(seconds) {
  return seconds ? ago(Math.max(Date.now() / 1000 - seconds, 0)) : "–";
}

function counted([messages, share]) {
  const bar = h("i", {});
  bar.style.width = `${Math.max(share * 100, 2)}%`;
  return h("span", { class: "share" }, h("span", { class: "share-track" }, bar), h("b", {}, number(messages)));
}

/** What the groups do not include. */
function notesOn(queues) {
  const inspected = (queue) => `${queue.name} (${number(queue.examined)} of ${number(queue.messages)})`;
  const ordinary = (queue) => `${number(queue.others)} in ${queue.name}`;
  const notes = [];
  const cut = queues.filter((queue) => queue.may_read && !queue.is_complete);
  if (cut.length)
    notes.push(
      `Only the first messages of ${cut.map(inspected).join(", ")} were inspected: the numbers above are incomplete.`,
    );
  const closed = queues.filter((queue) => !queue.may_read);
  if (closed.length)
    notes.push(
      `Not included: ${closed.map((queue) => queue.name).join(", ")}. Reading their messages requires permission.`,
    );
  const others = queues.filter((queue) => queue.others);
  if (others.length)
    notes.push(`Not included: messages that were not dead-lettered (${others.map(ordinary).join(", ")}).`);
  return notes;
}

function noDeadLetters(names) {
  if (names.length) {
    const shown = names.slice(0, 5).join(", ");
    return h(
      "div",
      { class: "first" },
      h(
        "p",
        { class: "empty" },
        `No dead letters in ${plural(names.length, "dead-letter queue")} (${shown}${names.length > 5 ? ", …" : ""}).`,
      ),
    );
  }
  const code = [
    'channel.queue_declare("dead", durable=True)',
    'channel.queue_declare("orders", durable=True, arguments={',
    '    "x-dead-letter-exchange": "",',
    '    "x-dead-letter-routing-key": "dead",',
    "})",
  ].join("\n");
  return h(
    "div",
    {},
    emptyCard(
      "No queue has a dead-letter exchange yet",
      h(
        "p",
        {},
        "A message that is rejected, expires or exceeds the delivery limit is dropped, unless its queue has a " +
          "dead-letter exchange. Dead-lettered messages are listed here by cause. With Python and pika:",
      ),
      h("pre", {}, code),
      h(
        "p",
        {},
        "For existing queues, set a policy with ",
        h("code", {}, "dead-letter-exchange"),
        " and ",
        h("code", {}, "dead-letter-routing-key"),
        ".",
      ),
      h("div", { class: "actions" }, h("button", { type: "button", onclick: () => go("/queues") }, "Go to queues")),
    ),
  );
}
