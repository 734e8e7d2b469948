// One queue: rates, consumers, bindings and messages.

import { path as at, get, post, remove } from "../api.js";
import { lineChart, pointsOf, rateSeries } from "../chart.js";
import { fill, fillFor, h, setText } from "../dom.js";
import { facts } from "../facts.js";
import { bytes, duration, number, plural, rate } from "../format.js";
import { RunningJobs, WORDS } from "../jobs.js";
import { badge, button, hasSeveralNodes, objectHead, section } from "../layout.js";
import { endTrouble, notify, notifyError, showTrouble, undoable } from "../notices.js";
import { poll } from "../poll.js";
import { Tiles } from "../tiles.js";
import { objectRanges } from "../time_range.js";
import { consumersTable } from "./consumers.js";
import { traceLinks } from "./message_trace.js";
import { bindDialog, queueBindings } from "./queue_bindings.js";
import { deleteDialog } from "./queue_delete.js";
import { featuresOf } from "./queue_features.js";
import { findingsOf } from "./queue_findings.js";
import { EXPLAINED, jobDialog } from "./queue_jobs.js";
import { MessageBrowser } from "./queue_messages.js";
import { moveDialog } from "./queue_move.js";
import { publishDialog } from "./queue_publish.js";
import { unackedTable } from "./queue_unacked.js";
import { drain } from "./queues.js";

export const path = "/queues/:vhost/:name";
export const under = "Queues";
export const title = ({ name }) => name;

const SEVERAL = 8; // number of rows from which a filter is shown
const RATES = {
  Publish: "publish",
  "Deliver (manual ack)": "deliver",
  "Deliver (auto ack)": "deliver_no_ack",
  Ack: "ack",
};
const FURTHER_RATES = {
  Redelivered: "redeliver",
  "Get (manual ack)": "get",
  "Get (auto ack)": "get_no_ack",
  "Get (empty)": "get_empty",
};

export function show(place, { vhost, name }, signal, user) {
  const address = at`/api/queues/${vhost}/${name}`;
  const view = new View(vhost, name);
  let queue = null;
  const refresh = poll(
    signal,
    async () => {
      queue = await get(address, objectRanges.query("lengths", "msg_rates"), { signal });
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
  view.move.addEventListener("click", () => moveDialog(address, name, queue, refresh));
  view.remove.addEventListener("click", () => deleteDialog(address, name, signal));
  const bindings = queueBindings(address, vhost, signal);
  view.whenHeld(() => unackedTable(address, signal));
  fill(
    place,
    view.head,
    view.trouble,
    jobs.element,
    view.findings,
    view.tiles.element,
    h("div", { class: "chart-tools" }, objectRanges.buttons(refresh)),
    h("div", { class: "charts" }, view.lengths.element, view.rates.element, view.further.element),
    section(
      "Consumers",
      consumersTable(address, signal, user, ["channel"], { toolsFrom: SEVERAL, empty: "No consumers." }),
    ),
    view.unacked,
    section(
      "Bindings",
      bindings.element,
      button("Add binding …", () => bindDialog(vhost, name, signal, () => bindings.refresh())),
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
    this.move = h("button", { type: "button", hidden: true }, "Move queue …");
    this.remove = h("button", { type: "button", class: "danger" }, "Delete queue …");
    const about = [`queue in virtual host ${vhost} `, this.badges];
    this.head = objectHead(name, about, this.publish, this.pause, this.move, this.purge, this.remove);
    this.trouble = h("div", {});
    this.findings = h("div", { class: "findings", role: "note" });
    this.work = []; // buttons for jobs on messages
    this.unacked = h("section", { hidden: true });
    this.openUnacked = () => {};
    this.tiles = new Tiles("Ready", "Unacked", "Publish rate", "Deliver rate", "Oldest", "Drains in", "Size");
    this.lengths = lineChart("Messages");
    this.rates = lineChart("Message rates");
    this.further = lineChart("Redelivered, get");
    this.facts = h("details", { class: "card facts" }, h("summary", {}, "Arguments, policy and counters"));
    this.table = h("dl", {});
    this.facts.append(this.table);
  }

  /** Unacked messages are listed from the first time that there are some. */
  whenHeld(open) {
    this.openUnacked = () => {
      fill(this.unacked, h("h2", {}, "Unacked messages"), open());
    };
  }

  #showUnacked(isHeld) {
    if (!isHeld || !this.unacked.hidden) return;
    this.unacked.hidden = false;
    this.openUnacked();
  }

  show(queue) {
    endTrouble(this.trouble);
    this.#showUnacked(queue.messages_unacknowledged > 0 && queue.type !== "stream");
    const findings = findingsOf(queue);
    fillFor(this.findings, findings, () =>
      findings.map(({ brief, text }) => h("p", {}, h("strong", {}, brief), ` ${text}`)),
    );
    const isPaused = queue.state === "paused";
    const badges = badgesOf(queue);
    fillFor(this.badges, badges, () => badges.map(([text, kind]) => badge(text, kind)));
    setText(this.pause, isPaused ? "Resume queue" : "Pause queue");
    this.publish.disabled = this.pause.disabled = this.remove.disabled = false;
    this.purge.disabled = !queue.messages_ready;
    setText(this.purge, queue.messages_ready ? `Purge ${plural(queue.messages_ready, "message")}` : "Purge messages");
    this.move.hidden = !queue.home || queue.exclusive || queue.type === "stream";
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
    this.#draw(queue, stats);
    this.#showFacts(queue);
  }

  #draw(queue, stats) {
    const { age } = objectRanges.current;
    const lengths = [
      { label: "Ready", points: pointsOf(queue.messages_ready_details), now: queue.messages_ready },
      { label: "Unacked", points: pointsOf(queue.messages_unacknowledged_details), now: queue.messages_unacknowledged },
    ];
    this.lengths.draw(lengths, undefined, age);
    this.rates.draw(rateSeries(stats, RATES), rate, age);
    this.further.draw(rateSeries(stats, FURTHER_RATES), rate, age);
  }

  /** Messages leave a stream by retention only. */
  #isStream() {
    this.purge.hidden = true;
    for (const one of this.work) one.hidden = one.dataset.kind !== "copy";
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
    ...featuresOf(queue).map(({ text }) => [text, ""]),
    queue.home && [`cell ${queue.home}`, ""],
    hasSeveralNodes() && [`on ${queue.node}`, ""],
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
