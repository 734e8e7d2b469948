// Traced messages of a virtual host, and the switch for tracing.

import { path as at, get, put, remove } from "../api.js";
import { fill, h, setText } from "../dom.js";
import { bytes, number, plural } from "../format.js";
import { badge, emptyCard, nameLink, pageHead } from "../layout.js";
import { notify, notifyError, problemBox, undoable } from "../notices.js";
import { go, link } from "../router.js";
import { numeric, Table } from "../table.js";
import { vhostNames } from "../vhosts.js";
import { shownExchange } from "./exchange_links.js";

export const path = "/traces/:vhost";
export const under = "Traces";
export const title = () => "Traces";

/** Traces include messages of all users. */
export function mayReadTraces(user) {
  return ["monitoring", "administrator"].some((tag) => user.tags?.includes(tag));
}

export const isFor = mayReadTraces;

export async function find(text, signal) {
  const traced = await get("/api/traces", undefined, { signal });
  const found = await Promise.all(
    traced.map((tracing) =>
      get(
        at`/api/traces/${tracing.vhost}`,
        { text, page: 1, page_size: 8, sort: "began", sort_reverse: true },
        { signal },
      ),
    ),
  );
  const traces = found.flatMap((answer) => answer.items);
  return traces.map((one) => ({
    title: one.name,
    hint: `traced message in ${one.vhost}`,
    address: link`/traces/${one.vhost}/${one.id}`.slice(1),
  }));
}

/** Without a virtual host in the URL: the first one with tracing, or the first one. */
export const anywhere = {
  path: "/traces",
  nav: "Traces",
  isFor: mayReadTraces,
  title,
  async show(place, _parameters, signal) {
    try {
      const [traced, names] = await Promise.all([get("/api/traces", undefined, { signal }), vhostNames(signal)]);
      location.replace(link`/traces/${traced[0]?.vhost ?? names[0] ?? "/"}`);
    } catch (problem) {
      if (problem.name !== "AbortError") fill(place, problemBox(problem));
    }
  },
};

export function show(place, { vhost }, signal, user) {
  const isAdministrator = Boolean(user.tags?.includes("administrator"));
  /** @type {any} */
  let tracing = null; // the row of the virtual host in /api/traces, if it is traced
  const state = h("p", { class: "faint" });
  const clear = h("button", { type: "button", class: "danger", onclick: deleteAll }, "Delete all traces");
  const buttons = h(
    "div",
    { class: "buttons", hidden: true },
    h("button", { type: "button", onclick: () => setTracing(false) }, "Disable tracing"),
    clear,
  );
  const filters = { queue: filter("queue"), exchange: filter("exchange") };
  const table = new Table({
    columns: columns(vhost),
    source: async ({ name, ...question }, signal) => {
      tracing = (await get("/api/traces", undefined, { signal })).find((one) => one.vhost === vhost) ?? null;
      showState();
      const asked = {
        text: name,
        queue: filters.queue.value.trim() || undefined,
        exchange: filters.exchange.value.trim() || undefined,
      };
      const answer = await get(at`/api/traces/${vhost}`, { ...question, ...asked }, { signal });
      return { ...answer, total_count: Math.max(tracing?.traces ?? 0, answer.filtered_count) }; // may have grown
    },
    signal,
    sort: "began",
    reverse: true,
    noun: "message",
    emptiness: () => Boolean(tracing),
    empty: (isOn) => (isOn ? waiting() : switchedOff(vhost, isAdministrator, () => setTracing(true))),
  });

  function filter(what) {
    return h("input", {
      type: "search",
      placeholder: `Filter by ${what}`,
      "aria-label": `Name of the ${what}`,
      onchange: () => table.restart(),
    });
  }

  function showState() {
    setText(state, tracing ? stateOf(tracing) : "");
    buttons.hidden = !isAdministrator || !tracing;
    clear.disabled = !tracing?.traces;
  }

  async function setTracing(isOn) {
    try {
      await put(at`/api/vhosts/${vhost}`, { tracing: isOn });
      notify(isOn ? `Tracing enabled for ${vhost}.` : `Tracing disabled for ${vhost}; recorded traces were discarded.`);
    } catch (problem) {
      notifyError(problem);
    }
    table.restart();
  }

  function deleteAll() {
    const text = `Traces of ${plural(tracing.traces, "message")} will be deleted`;
    undoable(
      text,
      () => remove(at`/api/traces/${vhost}`),
      () => table.restart(),
    );
  }

  table.search.placeholder = "Message ID, routing key, header …";
  table.search.setAttribute("aria-label", "Search messages");
  table.search.after(filters.queue, filters.exchange);
  fill(
    place,
    pageHead("Traces", [`message traces of virtual host ${vhost} `, others(vhost, signal)], buttons),
    state,
    table.element,
  );
}

/** A select for the virtual host, hidden if there is only one. */
function others(vhost, signal) {
  const select = h("select", {
    "aria-label": "Virtual host",
    hidden: true,
    onchange: () => go(link`/traces/${select.value}`.slice(1)),
  });
  vhostNames(signal).then((names) => {
    if (names.length < 2) return;
    fill(
      select,
      names.map((name) => h("option", { value: name, selected: name === vhost }, name)),
    );
    select.hidden = false;
  });
  return select;
}

function stateOf({ traces, discarded, bytes: used, max_bytes: limit }) {
  const older = discarded ? `, ${plural(discarded, "older trace")} discarded` : "";
  const memory = `${bytes(used)} of ${bytes(limit)} used`;
  return `Tracing is enabled: ${plural(traces, "message")} traced, ${memory}${older}.`;
}

function columns(vhost) {
  return [
    {
      title: "Message",
      sort: "name",
      width: "name",
      value: (row) => [row.id, row.name],
      show: ([id, name]) => nameLink(link`/traces/${vhost}/${id}`, name),
    },
    {
      title: "Last event",
      sort: "last",
      width: "m",
      value: (row) => row.last,
      show: (last) => badge(last),
    },
    { title: "Exchange", sort: "exchange", rank: 2, value: (row) => shownExchange(row.exchange) },
    { title: "Routing key", sort: "routing_key", rank: 2, value: (row) => row.routing_key },
    { title: "Queues", rank: 2, value: (row) => row.queues.join(", ") },
    {
      title: "Started",
      sort: "began",
      rank: 2,
      width: "s",
      value: (row) => row.began,
      show: (time) => new Date(time * 1000).toLocaleTimeString([], { hour12: false }),
    },
    numeric("Events", "number_of_events", number, { rank: 3 }),
  ];
}

function waiting() {
  return h(
    "p",
    { class: "empty" },
    "No messages traced since tracing was enabled. Publish a message to see its trace here.",
  );
}

function switchedOff(vhost, mayChange, enable) {
  const card = emptyCard(
    `Tracing is disabled for virtual host ${vhost}`,
    h(
      "p",
      {},
      "While tracing is enabled, the broker records for each message its publisher, the bindings that routed it, its " +
        "deliveries and how it left the queue. The latest 10,000 traces are kept in memory, without message bodies.",
    ),
    h("p", {}, "Tracing slows down publishing and delivery: enable it to find a problem, then disable it again."),
    mayChange
      ? h(
          "div",
          { class: "actions" },
          h("button", { type: "button", class: "strong", onclick: enable }, "Enable tracing"),
        )
      : h("p", {}, "Ask an administrator to enable it."),
  );
  return h("div", {}, card);
}
