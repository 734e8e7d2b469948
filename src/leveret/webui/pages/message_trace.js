// The trace of one message as a timeline.

import { path as at, get, remove } from "../api.js";
import { fill, h, setText } from "../dom.js";
import { facts } from "../facts.js";
import { bytes, duration, plural } from "../format.js";
import { badge, nameLink, objectHead } from "../layout.js";
import { notify, notifyError, problemBox } from "../notices.js";
import { poll } from "../poll.js";
import { go, link } from "../router.js";
import { shownExchange } from "./exchange_links.js";
import { mayReadTraces } from "./traces.js";

export const path = "/traces/:vhost/:id";
export const under = "Traces";
export const title = ({ id }) => `Message ${id}`;

/** A function that links a browsed message to its trace; null if the user may not read traces. */
export function traceLinks(user, vhost) {
  if (!mayReadTraces(user)) return null;
  return (message) => h("a", { href: link`/traces/${vhost}/${message.id}` }, "Message trace");
}

export function show(place, { vhost, id }, signal, user) {
  const address = at`/api/traces/${vhost}/${id}`;
  const view = new View(vhost, id);
  /** @type {HTMLElement[]} */
  const buttons = [h("a", { class: "button", href: link`/traces/${vhost}` }, "All traces")];
  if (user.tags?.includes("administrator"))
    buttons.push(
      h("button", { type: "button", class: "danger", onclick: () => deleteTrace(address, vhost, id) }, "Delete trace"),
    );
  fill(place, objectHead(view.name, `message in virtual host ${vhost}`, buttons), view.trouble, view.body);
  poll(
    signal,
    async () => view.show(await get(address, undefined, { signal })),
    (problem) => view.fail(problem),
  );
}

async function deleteTrace(address, vhost, id) {
  try {
    await remove(address);
    notify(`Trace of message ${id} deleted. The message itself is not affected.`);
    go(link`/traces/${vhost}`.slice(1));
  } catch (problem) {
    notifyError(problem);
  }
}

class View {
  #shown = "";

  constructor(vhost, id) {
    this.vhost = vhost;
    this.name = h("span", {}, id);
    this.trouble = h("div", {});
    this.body = h("div", { class: "message-trace" });
  }

  show(trace) {
    fill(this.trouble);
    setText(this.name, trace.message_id ?? trace.id);
    const now = JSON.stringify(trace);
    if (now === this.#shown) return; // keep the text selection
    this.#shown = now;
    fill(
      this.body,
      h("section", { class: "card" }, h("h2", {}, "Events"), timeline(this.vhost, trace)),
      messageCard(this.vhost, trace),
    );
  }

  fail(problem) {
    fill(
      this.trouble,
      problemBox(problem),
      problem.status === 404 &&
        h(
          "p",
          {},
          h("a", { href: link`/traces/${this.vhost}` }, "See all traces"),
          " of this virtual host, and whether tracing is enabled.",
        ),
    );
  }
}

function timeline(vhost, trace) {
  const began = trace.events[0].time;
  const items = trace.events.map((event) => step(vhost, event, began));
  if (trace.events_left_out)
    items.splice(50, 0, h("li", { class: "gap faint" }, `${trace.events_left_out} events omitted`));
  return h("ol", { class: "timeline" }, items);
}

function step(vhost, event, began) {
  const moment = new Date(event.time * 1000);
  const later = event.time - began;
  return h(
    "li",
    { class: KINDS[event.what] ?? "" },
    h(
      "div",
      { class: "what" },
      h("strong", {}, event.what),
      h(
        "time",
        { class: "faint", datetime: moment.toISOString(), title: moment.toLocaleString() },
        clock(moment),
        later > 0 ? ` (+${duration(later)})` : "",
      ),
    ),
    h("div", { class: "result" }, (WORDS[event.what] ?? usual)(event, vhost)),
    event.what === "routed" && bindings(vhost, event.bindings ?? []),
  );
}

function clock(moment) {
  const digits = "2-digit";
  const time = moment.toLocaleTimeString([], { hour: digits, minute: digits, second: digits, hour12: false });
  return `${time}.${String(moment.getMilliseconds()).padStart(3, "0")}`;
}

// ---- texts

const KINDS = {
  acked: "good",
  stored: "good",
  rejected: "bad",
  "dead-lettered": "bad",
  expired: "bad",
  dropped: "bad",
  "not taken": "bad",
  unroutable: "bad",
  returned: "bad",
  purged: "bad",
  deleted: "bad",
  requeued: "warn",
  waiting: "warn",
};

const inQueue = (vhost, name) => nameLink(link`/queues/${vhost}/${name}`, name);
const exchangeName = (name) => (name ? h("code", {}, name) : "the default exchange");

function clientOf(event) {
  if (!event.connection) return "an in-process client or the HTTP API";
  return [
    h("b", {}, event.user),
    " on ",
    h("a", { href: link`/connections/${event.connection}` }, event.connection),
    `, channel ${event.channel}`,
  ];
}

const deliveries = (count) => plural(count, "delivery", "deliveries");

const usual = (event, vhost) =>
  event.queue ? ["in queue ", inQueue(vhost, event.queue), event.reason && `: ${event.reason}`] : (event.reason ?? "");

const WORDS = {
  received: (event) => [
    "from ",
    clientOf(event),
    ", to ",
    exchangeName(event.exchange),
    " with routing key ",
    h("code", {}, event.routing_key || "(empty)"),
  ],
  routed: (event, vhost) => ["to ", event.queues.map((name, number) => [number > 0 && ", ", inQueue(vhost, name)])],
  unroutable: () => "no binding matches",
  returned: () => "no binding matches, and the publisher set the mandatory flag",
  queued: (event, vhost) => ["in ", inQueue(vhost, event.queue), " as ", h("code", {}, event.id)],
  found: (event, vhost) => [
    "in ",
    inQueue(vhost, event.queue),
    " as ",
    h("code", {}, event.id),
    "; it was published before tracing was enabled",
  ],
  stored: (event, vhost) => ["on disk, for ", inQueue(vhost, event.queue)],
  scheduled: (event) => `until ${new Date(event.until * 1000).toLocaleString()}`,
  due: () => "the delivery time was reached",
  delivered: (event, vhost) => [
    "from ",
    inQueue(vhost, event.queue),
    " to ",
    clientOf(event),
    event.consumer_tag && [", consumer ", h("code", {}, event.consumer_tag)],
    event.redelivered && badge("redelivered", "warn"),
  ],
  acked: (event, vhost) => [
    "in ",
    inQueue(vhost, event.queue),
    event.automatic && ", automatically on delivery",
    event.lease && ", by a lease",
  ],
  requeued: (event, vhost) => [
    "to ",
    inQueue(vhost, event.queue),
    `: ${event.reason}, after ${deliveries(event.tries)}`,
  ],
  waiting: (event, vhost) => [
    "in ",
    inQueue(vhost, event.queue),
    ` for redelivery: ${event.reason}, after ${deliveries(event.tries)}`,
  ],
  "dead-lettered": (event, vhost) => ["from ", inQueue(vhost, event.queue), `: ${event.reason}`],
  rejected: (event, vhost) => ["by a consumer of ", inQueue(vhost, event.queue), ", which has no dead-letter exchange"],
  moved: (event, vhost) => ["from ", inQueue(vhost, event.queue)],
};

function bindings(vhost, steps) {
  if (!steps.length) return null;
  const BY = {
    binding: (one) => ["by binding ", h("code", {}, one.routing_key || "(empty)")],
    name: () => "by queue name",
    "alternate-exchange": () => "as the alternate exchange",
  };
  const end = (one) =>
    one.destination_type === "queue" ? inQueue(vhost, one.destination) : h("code", {}, one.destination);
  return h(
    "ul",
    { class: "steps" },
    steps.map((one) =>
      h("li", {}, exchangeName(one.source), " → ", end(one), " ", (BY[one.by] ?? (() => one.by))(one)),
    ),
  );
}

// ---- facts

function messageCard(vhost, trace) {
  const { headers, ...properties } = trace.properties ?? {};
  const first = {
    id: trace.id,
    exchange: shownExchange(trace.exchange),
    "routing key": trace.routing_key,
    size: bytes(trace.size),
    ...properties,
  };
  const waits = trace.positions.map((one) => h("dd", {}, inQueue(vhost, one.queue), ` as ${one.id}`));
  return h(
    "section",
    { class: "card" },
    h("h2", {}, "Message"),
    h(
      "dl",
      {},
      waits.length ? [h("dt", {}, "in queue"), waits] : [h("dt", {}, "in queue"), h("dd", {}, "none")],
      facts(first),
    ),
    headers &&
      Object.keys(headers).length > 0 && [
        h("h3", {}, trace.headers_cut ? "Headers (long values omitted)" : "Headers"),
        h("dl", {}, facts(headers)),
      ],
    h("p", { class: "faint" }, "Traces do not include message bodies."),
  );
}
