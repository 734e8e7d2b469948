// What became of one message, as a line through time.

import { get, path as at, remove } from "../api.js";
import { fill, h, setText } from "../dom.js";
import { bytes, duration, plural } from "../format.js";
import { live } from "../live.js";
import { problemBox, tell, tellError } from "../notices.js";
import { go, link } from "../router.js";
import { shownExchange } from "./exchange_links.js";
import { mayReadStories } from "./traces.js";

export const path = "/traces/:vhost/:id";
export const under = "Queues";
export const title = ({ id }) => `Message ${id}`;

/** For messages as a look into a queue shows them, the way to the story of each; null for users who may not read it. */
export function storyLinks(user, vhost) {
  if (!mayReadStories(user)) return null;
  return (message) => h("a", { href: link`/traces/${vhost}/${message.id}` }, "What became of it so far");
}

export function show(place, { vhost, id }, signal, user) {
  const address = at`/api/traces/${vhost}/${id}`;
  const view = new View(vhost, id);
  const buttons = [h("a", { class: "button", href: link`/traces/${vhost}` }, "All messages")];
  if (user.tags?.includes("administrator"))
    buttons.push(h("button", { type: "button", class: "danger", onclick: () => forget(address, vhost, id) }, "Forget"));
  fill(
    place,
    h(
      "header",
      { class: "page-head" },
      h("div", {}, view.name, h("p", { class: "faint" }, `message in virtual host ${vhost}`)),
      h("div", { class: "buttons" }, buttons),
    ),
    view.trouble,
    view.body,
  );
  live(
    signal,
    async () => view.show(await get(address, undefined, { signal })),
    (problem) => view.fail(problem),
  );
}

async function forget(address, vhost, id) {
  try {
    await remove(address);
    tell(`The story of message ${id} is forgotten. The message itself is where it was.`);
    go(link`/traces/${vhost}`.slice(1));
  } catch (problem) {
    tellError(problem);
  }
}

class View {
  #shown = "";

  constructor(vhost, id) {
    this.vhost = vhost;
    this.name = h("h1", { class: "object" }, id);
    this.trouble = h("div", {});
    this.body = h("div", { class: "biography" });
  }

  show(story) {
    fill(this.trouble);
    setText(this.name, story.message_id ?? story.id);
    const now = JSON.stringify(story);
    if (now === this.#shown) return; // so that what somebody has selected stays selected
    this.#shown = now;
    fill(
      this.body,
      h("section", { class: "card" }, h("h2", {}, "What happened"), timeline(this.vhost, story)),
      facts(this.vhost, story),
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
          h("a", { href: link`/traces/${this.vhost}` }, "See what is known"),
          " of other messages, and whether tracing is on.",
        ),
    );
  }
}

function timeline(vhost, story) {
  const began = story.events[0].time;
  const items = story.events.map((event) => step(vhost, event, began));
  if (story.events_left_out)
    items.splice(50, 0, h("li", { class: "gap faint" }, `${story.events_left_out} more in between, too many to keep`));
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
    h("div", { class: "told" }, (WORDS[event.what] ?? usual)(event, vhost)),
    event.what === "routed" && bindings(vhost, event.bindings ?? []),
  );
}

function clock(moment) {
  return `${moment.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false })}.${String(moment.getMilliseconds()).padStart(3, "0")}`;
}

// ---- words

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

const inQueue = (vhost, name) => h("a", { href: link`/queues/${vhost}/${name}` }, name);
const exchangeName = (name) => (name ? h("code", {}, name) : "the default exchange");

function who(event) {
  if (!event.connection) return "the broker's own process, or over HTTP";
  return [
    h("b", {}, event.user),
    " on ",
    h("a", { href: link`/connections/${event.connection}` }, event.connection),
    `, channel ${event.channel}`,
  ];
}

const tries = (count) => plural(count, "delivery", "deliveries");

const usual = (event, vhost) =>
  event.queue ? ["in queue ", inQueue(vhost, event.queue), event.reason && `: ${event.reason}`] : (event.reason ?? "");

const WORDS = {
  received: (event) => [
    "from ",
    who(event),
    ", for ",
    exchangeName(event.exchange),
    " with key ",
    h("code", {}, event.routing_key || "(empty)"),
  ],
  routed: (event, vhost) => ["to ", event.queues.map((name, number) => [number > 0 && ", ", inQueue(vhost, name)])],
  unroutable: () => "no binding takes it to a queue",
  returned: () => "no binding takes it to a queue, and the publisher asked to have it back",
  queued: (event, vhost) => ["in ", inQueue(vhost, event.queue), " as ", h("code", {}, event.id)],
  found: (event, vhost) => [
    "in ",
    inQueue(vhost, event.queue),
    " as ",
    h("code", {}, event.id),
    "; it came before tracing was on",
  ],
  stored: (event, vhost) => ["on disk, for ", inQueue(vhost, event.queue)],
  scheduled: (event) => `until ${new Date(event.until * 1000).toLocaleString()}`,
  due: () => "its time has come: it is routed now",
  delivered: (event, vhost) => [
    "from ",
    inQueue(vhost, event.queue),
    " to ",
    who(event),
    event.consumer_tag && [", consumer ", h("code", {}, event.consumer_tag)],
    event.redelivered && h("span", { class: "badge warn" }, "redelivered"),
  ],
  acked: (event, vhost) => [
    "in ",
    inQueue(vhost, event.queue),
    event.automatic && ", by being delivered",
    event.lease && ", by a lease",
  ],
  requeued: (event, vhost) => ["to ", inQueue(vhost, event.queue), `: ${event.reason}, after ${tries(event.tries)}`],
  waiting: (event, vhost) => [
    "in ",
    inQueue(vhost, event.queue),
    ` for another try: ${event.reason}, after ${tries(event.tries)}`,
  ],
  "dead-lettered": (event, vhost) => ["out of ", inQueue(vhost, event.queue), `: ${event.reason}`],
  rejected: (event, vhost) => ["by the consumer of ", inQueue(vhost, event.queue), ", which sends nothing on"],
  moved: (event, vhost) => ["out of ", inQueue(vhost, event.queue)],
};

function bindings(vhost, steps) {
  if (!steps.length) return null;
  const BY = {
    binding: (one) => ["by the binding ", h("code", {}, one.routing_key || "(empty)")],
    name: () => "by its name",
    "alternate-exchange": () => "as its alternate exchange",
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

function facts(vhost, story) {
  const { headers, ...properties } = story.properties ?? {};
  const first = {
    id: story.id,
    exchange: shownExchange(story.exchange),
    "routing key": story.routing_key,
    size: bytes(story.size),
    ...properties,
  };
  const waits = story.waits_in.map((one) => h("dd", {}, inQueue(vhost, one.queue), ` as ${one.id}`));
  return h(
    "section",
    { class: "card" },
    h("h2", {}, "The message"),
    h(
      "dl",
      {},
      waits.length ? [h("dt", {}, "is in"), waits] : [h("dt", {}, "is in"), h("dd", {}, "no queue any more")],
      pairs(first),
    ),
    headers &&
      Object.keys(headers).length > 0 && [
        h("h3", {}, story.headers_cut ? "Headers, the short ones" : "Headers"),
        h("dl", {}, pairs(headers)),
      ],
    h("p", { class: "faint" }, "Bodies are not kept."),
  );
}

function pairs(values) {
  return Object.entries(values)
    .filter(([, value]) => value !== undefined && value !== null)
    .map(([name, value]) => [
      h("dt", {}, name),
      h("dd", {}, typeof value === "object" ? JSON.stringify(value, null, 1) : String(value)),
    ]);
}
