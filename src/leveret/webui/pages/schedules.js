// Scheduled messages.

import { path as at, get, getBytes, remove } from "../api.js";
import { fill, h, setText } from "../dom.js";
import { downloadButton } from "../download.js";
import { bytes, duration, number } from "../format.js";
import { emptyCard, pageHead } from "../layout.js";
import { listTable } from "../list_page.js";
import { notify, undoable } from "../notices.js";
import { numeric, rowsSource } from "../table.js";
import { keptVhost, vhostNames } from "../vhosts.js";
import { shownExchange } from "./exchange_links.js";
import { fileName } from "./message_content.js";

export const path = "/schedules";
export const nav = "Schedules";
export const title = () => "Schedules";

const MOST = 1000; // messages per virtual host

export function show(place, _parameters, signal) {
  const schedules = new Schedules();
  const note = h("p", { class: "faint" });
  const table = listTable({
    columns: columns(schedules, (row) => cancel(row, () => table.refresh())),
    source: rowsSource(
      async (signal) => {
        const rows = await schedules.load(keptVhost(), signal);
        setText(
          note,
          schedules.count > rows.length
            ? `Showing the next ${number(rows.length)} of ${number(schedules.count)} scheduled messages.`
            : "",
        );
        return rows;
      },
      (row) => `${row.exchange} ${row.routing_key}`,
    ),
    signal,
    sort: "due",
    noun: "scheduled message",
    placeholder: "Filter by exchange or routing key",
    empty: howToSchedule,
  });
  fill(place, pageHead("Schedules"), table.element, note);
  const ticking = setInterval(() => countDown(table.element, schedules), 1000);
  signal.addEventListener("abort", () => clearInterval(ticking));
}

/** Scheduled messages of one or all virtual hosts, and the broker's time. */
class Schedules {
  #ahead = 0; // seconds that the broker's clock is ahead of ours
  #closed = new Map(); // virtual host -> error, for those the user has no access to
  count = 0;

  async load(vhost, signal) {
    const names = vhost ? [vhost] : await vhostNames(signal);
    const answers = await Promise.all(names.map((name) => this.#of(name, signal)));
    if (names.length && names.every((name) => this.#closed.has(name))) throw this.#closed.get(names[0]);
    this.count = answers.reduce((sum, answer) => sum + answer.count, 0);
    return answers.flatMap((answer) => answer.messages);
  }

  async #of(vhost, signal) {
    const nothing = { count: 0, messages: [] };
    if (this.#closed.has(vhost)) return nothing;
    try {
      const answer = await get(at`/api/schedules/${vhost}`, { limit: MOST }, { signal });
      this.#ahead = answer.now - Date.now() / 1000;
      return { count: answer.count, messages: answer.messages.map((message) => ({ ...message, vhost })) };
    } catch (problem) {
      if (problem.status !== 403) throw problem;
      this.#closed.set(vhost, problem);
      return nothing;
    }
  }

  left(due) {
    return due - (Date.now() / 1000 + this.#ahead);
  }

  /** The due time by the browser's clock. */
  moment(due) {
    return new Date((due - this.#ahead) * 1000);
  }
}

function columns(schedules, cancelRow) {
  return [
    {
      title: "Due in",
      sort: "due",
      width: "m",
      value: (row) => row.due,
      show: (due) => h("span", { class: "countdown", "data-due": due }, countdown(schedules.left(due))),
    },
    { title: "Due at", rank: 2, width: "moment", value: (row) => dateTime(schedules.moment(row.due)) },
    { title: "Exchange", sort: "exchange", rank: 2, value: (row) => shownExchange(row.exchange) },
    { title: "Routing key", sort: "routing_key", width: "name", value: (row) => row.routing_key },
    {
      title: "Body",
      rank: 2,
      value: (row) => [row.payload ?? "", row.payload_encoding],
      show: ([text, encoding]) =>
        text && h("code", { title: text }, encoding === "base64" ? `base64 ${text}` : text.replace(/\s+/g, " ")),
    },
    { title: "Vhost", sort: "vhost", rank: 3, width: "s", value: (row) => row.vhost },
    numeric("Size", "size", bytes, { rank: 2 }),
    {
      title: "",
      rank: 2,
      width: "download",
      align: "right",
      value: ({ vhost, id, routing_key }) => ({ vhost, id, routing_key }),
      show: download,
    },
    {
      title: "",
      width: "retry",
      align: "right",
      value: ({ vhost, id, exchange, routing_key, due }) => ({ vhost, id, exchange, routing_key, due }),
      show: (message) =>
        h(
          "button",
          {
            type: "button",
            class: "small danger",
            "aria-label": `Cancel ${message.routing_key} due at ${dateTime(schedules.moment(message.due))}`,
            onclick: () => cancelRow(message),
          },
          "Cancel",
        ),
    },
  ];
}

/** The list has only the start of short bodies. */
function download({ vhost, id, routing_key: key }) {
  const load = () => getBytes(at`/api/schedules/${vhost}/${id}/body`);
  const button = downloadButton("Download", fileName({ id }), load);
  button.classList.add("small");
  button.setAttribute("aria-label", `Download the body of ${key}`);
  return button;
}

function countDown(element, schedules) {
  for (const cell of element.querySelectorAll(".countdown"))
    setText(cell, countdown(schedules.left(Number(cell.dataset.due))));
}

function countdown(seconds) {
  return seconds > 0 ? duration(Math.ceil(seconds)) : "now";
}

function dateTime(moment) {
  return Number.isNaN(moment.getTime()) ? "–" : moment.toLocaleString([], { dateStyle: "medium", timeStyle: "medium" });
}

function cancel(row, changed) {
  const where = `${shownExchange(row.exchange)} → ${row.routing_key}`;
  const act = async () => {
    await remove(at`/api/schedules/${row.vhost}/${row.id}`);
    notify(`The scheduled message for ${where} was cancelled.`);
  };
  undoable(`The scheduled message for ${where} will be cancelled`, act, changed);
}

function howToSchedule() {
  const code = [
    "import time, pika",
    "",
    "later = int((time.time() + 60) * 1000)",
    'channel.basic_publish("", "hello", b"in a minute",',
    '    pika.BasicProperties(delivery_mode=2, headers={"x-deliver-at": later}))',
  ].join("\n");
  return h(
    "div",
    {},
    emptyCard(
      "No scheduled messages",
      h(
        "p",
        {},
        "The header ",
        h("code", {}, "x-deliver-at"),
        " (milliseconds since 1970) delays the delivery of any message. With Python and pika:",
      ),
      h("pre", {}, code),
      h(
        "p",
        {},
        "An exchange of type ",
        h("code", {}, "x-delayed-message"),
        " delays messages by their header ",
        h("code", {}, "x-delay"),
        ", in milliseconds.",
      ),
    ),
  );
}
