// One queue: rates, consumers, bindings and messages.

import { path as at, get, post, remove } from "../api.js";
import { lineChart, pointsOf } from "../chart.js";
import { fill, fillFor, h, setText } from "../dom.js";
import { facts } from "../facts.js";
import { bytes, duration, number, plural, rate } from "../format.js";
import { RunningJobs, WORDS } from "../jobs.js";
import { objectHead, section } from "../layout.js";
import { endTrouble, notify, notifyError, showTrouble, undoable } from "../notices.js";
import { poll } from "../poll.js";
import { rowsSource, Table } from "../table.js";
import { Tiles } from "../tiles.js";
import { connectionLink, peerIn } from "./connection_format.js";
import { consumersTable } from "./consumers.js";
import { exchangeLink, shownExchange } from "./exchange_links.js";
import { traceLinks } from "./message_trace.js";
import { deleteDialog } from "./queue_delete.js";
import { findingsOf } from "./queue_findings.js";
import { EXPLAINED, jobDialog } from "./queue_jobs.js";
import { MessageBrowser } from "./queue_messages.js";
import { publishDialog } from "./queue_publish.js";
import { drain } from "./queues.js";

export const path = "/queues/:vhost/:name";
export const under = "Queues";
export const title = ({ name }) => name;

const SEVERAL = 8; // number of rows from which a filter is shown
const WINDOW = { lengths_age: 300, lengths_incr: 5, msg_rates_age: 300, msg_rates_incr: 5 };

export function show(place, { vhost, name }, signal, user) {
  const address = at`/api/queues/${vhost}/${name}`;
  const view = new View(vhost, name);
  let queue = null;
  const refresh = poll(
    signal,
    async () => {
      queue = await get(address, WINDOW, { signal });
      view.show(queue);
    },
    (problem) => view.fail(problem),
  );
  const browser = new MessageBrowser(address, signal, { trace: traceLinks(user, vhost) });
  const changed = () => {
    refresh();
    browser.refresh();
  };
  const jobs = new RunningJobs(signal, (row) => row.vhost === vhost && row.queue === name, changed);
  const work = (kind) => jobDialog(kind, vhost, name, browser.filter, (id, expected) => jobs.watch(id, expected));
  view.work = Object.keys(WORDS).map((kind) =>
    h(
      "button",
      {
        type: "button",
        "data-kind": kind,
        class: kind === "delete" ? "danger" : "",
        title: EXPLAINED[kind],
        onclick: () => work(kind),
      },
      `${WORDS[kind].title} …`,
    ),
  );
  view.pause.addEventListener("click", () => togglePause(address, name, queue, refresh));
  view.publish.addEventListener("click", () => publishDialog(vhost, name, changed));
  view.purge.addEventListener("click", () => purge(address, name, queue, changed));
  view.remove.addEventListener("click", () => deleteDialog(address, name, signal));
  fill(
    place,
    view.head,
    view.trouble,
    jobs.element,
    view.findings,
    view.tiles.element,
    h("div", { class: "charts" }, view.lengths.element, view.rates.element),
    h(
      "div",
      { class: "two" },
      section("Consumers", consumers(address, signal)),
      section("Bindings", bindings(address, vhost, signal)),
    ),
    section("Messages", browser.element, view.work),
    view.facts,
  );
}

class View {
  constructor(vhost, name) {
    this.badges = h("span", { class: "badges" });
    this.publish = h("button", { type: "button", class: "strong" }, "Publish message …");
    this.pause = h("button", { type: "button", disabled: true }, "Pause queue");
    this.purge = h("button", { type: "button", class: "danger", disabled: true }, "Purge messages");
    this.remove = h("button", { type: "button", class: "danger" }, "Delete queue …");
    const about = [`queue in virtual host ${vhost} `, this.badges];
    this.head = objectHead(name, about, this.publish, this.pause, this.purge, this.remove);
    this.trouble = h("div", {});
    this.findings = h("div", { class: "findings", role: "note" });
    this.work = []; // buttons for jobs on messages
    this.tiles = new Tiles("Ready", "Unacked", "Publish rate", "Deliver rate", "Oldest", "Drains in", "Size");
    this.lengths = lineChart("Messages");
    this.rates = lineChart("Message rates");
    this.facts = h("details", { class: "card facts" }, h("summary", {}, "Arguments, policy and counters"));
    this.table = h("dl", {});
    this.facts.append(this.table);
  }

  show(queue) {
    endTrouble(this.trouble);
    const findings = findingsOf(queue);
    fillFor(this.findings, findings, () =>
      findings.map(({ brief, text }) => h("p", {}, h("strong", {}, brief), ` ${text}`)),
    );
    const isPaused = queue.state === "paused";
    const badges = badgesOf(queue);
    fillFor(this.badges, badges, () => badges.map(([text, kind]) => h("span", { class: `badge ${kind}` }, text)));
    setText(this.pause, isPaused ? "Resume queue" : "Pause queue");
    this.publish.disabled = this.pause.disabled = this.remove.disabled = false;
    this.purge.disabled = !queue.messages_ready;
    if (queue.type === "stream") this.#isStream();
    const stats = queue.message_stats ?? {};
    this.tiles.show({
      Ready: number(queue.messages_ready),
      Unacked: number(queue.messages_unacknowledged),
      "Publish rate": rate(stats.publish_details?.rate),
      "Deliver rate": rate(stats.deliver_get_details?.rate),
      Oldest: duration(queue.oldest_message_age),
      "Drains in": drain(queue.drain_estimate, queue.messages),
      Size: bytes(queue.message_bytes),
    });
    this.lengths.draw([
      { label: "Ready", points: pointsOf(queue.messages_ready_details), now: queue.messages_ready },
      { label: "Unacked", points: pointsOf(queue.messages_unacknowledged_details), now: queue.messages_unacknowledged },
    ]);
    this.rates.draw(
      [
        ["Publish", "publish"],
        ["Deliver", "deliver_get"],
        ["Ack", "ack"],
      ].map(([label, key]) => ({ label, points: pointsOf(stats[`${key}_details`], true) })),
      rate,
    );
    this.#showFacts(queue);
  }

  /** Messages leave a stream by retention only. */
  #isStream() {
    this.purge.hidden = true;
    for (const button of this.work) button.hidden = button.dataset.kind !== "copy";
  }

  #showFacts(queue) {
    const counters = Object.entries(queue.counters ?? {}).map(([name, value]) => [name, number(value)]);
    const values = {
      ...queue.arguments,
      policy: queue.policy ?? "none",
      "operator policy": queue.operator_policy ?? "none",
      ...queue.effective_policy_definition,
      memory: bytes(queue.memory),
      ...Object.fromEntries(counters),
    };
    fillFor(this.table, values, () => facts(values));
  }

  fail(problem) {
    this.pause.disabled = this.purge.disabled = true;
    this.publish.disabled = this.remove.disabled = problem.status === 404;
    showTrouble(this.trouble, problem, "All queues", "#/queues");
  }
}

function badgesOf(queue) {
  return [
    [queue.type, ""],
    queue.state !== "running" && [queue.state, "warn"],
    queue.durable && ["durable", ""],
    queue.auto_delete && ["auto-delete", ""],
    queue.exclusive && ["exclusive", ""],
    queue.policy && [`policy ${queue.policy}`, ""],
  ].filter(Boolean);
}

async function togglePause(address, name, queue, refresh) {
  const isPaused = queue.state === "paused";
  try {
    await post(`${address}/${isPaused ? "resume" : "pause"}`);
    notify(
      isPaused ? `Queue ${name} resumed.` : `Queue ${name} paused: it accepts messages but does not deliver them.`,
    );
  } catch (problem) {
    notifyError(problem);
  }
  refresh();
}

function purge(address, name, queue, changed) {
  const act = async () => {
    await remove(`${address}/contents`);
    notify(`Queue ${name} purged.`);
  };
  undoable(`${plural(queue.messages_ready, "message")} in queue ${name} will be deleted`, act, changed);
}

function consumers(address, signal) {
  const connection = {
    title: "Connection",
    sort: "channel_details.connection_name",
    value: (row) => row.channel_details?.connection_name ?? "",
    show: (name) => (name ? h("a", { href: connectionLink(name), title: name }, peerIn(name)) : "in-process client"),
  };
  return consumersTable(address, signal, connection, 3, { toolsFrom: SEVERAL, empty: "No consumers." });
}

function bindings(address, vhost, signal) {
  const load = (signal) => get(`${address}/bindings`, undefined, { signal });
  return new Table({
    columns: [
      {
        title: "Source",
        sort: "source",
        width: "name",
        value: (row) => row.source,
        show: (name) => h("a", { href: exchangeLink(vhost, name), title: shownExchange(name) }, shownExchange(name)),
      },
      { title: "Routing key", sort: "routing_key", value: (row) => row.routing_key },
      {
        title: "Arguments",
        rank: 2,
        value: (row) => (Object.keys(row.arguments ?? {}).length ? JSON.stringify(row.arguments) : ""),
      },
    ],
    source: rowsSource(load, (row) => `${row.source} ${row.routing_key}`),
    signal,
    noun: "binding",
    toolsFrom: SEVERAL,
    empty: "No bindings.",
  }).element;
}
