// Import of definitions: a preview first, then the import.

import { path as at, post } from "../api.js";
import { fill, h } from "../dom.js";
import { number, plural } from "../format.js";
import { field, form } from "../forms.js";
import { notify } from "../notices.js";
import { rowsSource, Table } from "../table.js";

const PLANNED = { created: "To create", changed: "To change", existing: "Unchanged" };
const DONE = { created: "Created", changed: "Changed", existing: "Unchanged" };

/** `into` is a select of the target virtual host: "" for the virtual hosts in the file. */
export function importer(into, signal) {
  const file = h("input", { type: "file", accept: ".json,application/json", "aria-label": "File" });
  const text = h("textarea", { name: "text", rows: "6", spellcheck: "false", placeholder: '{"queues": [ … ]}' });
  const result = h("div", { role: "status", class: "report" });
  /** @type {AbortController | null} */
  let looked = null; // ends the current preview; any change of the form discards it
  const forget = () => {
    looked?.abort();
    looked = null;
    fill(result);
  };
  let reading = Promise.resolve(); // the chosen file
  file.addEventListener("change", () => {
    forget();
    const chosen = file.files?.[0];
    if (!chosen) return;
    reading = chosen.text().then((content) => {
      text.value = content;
    });
  });
  for (const control of [text, into]) control.addEventListener("input", forget);
  const asking = form(
    [field("Choose a file", file), field("Or paste JSON", text), field("Import into", into)],
    "Preview import",
    async () => {
      forget();
      await reading;
      const definitions = parsed(text.value);
      const address = into.value ? at`/api/definitions/${into.value}` : "/api/definitions";
      const report = await post(`${address}?dry_run=true`, definitions, { signal });
      looked = new AbortController();
      signal.addEventListener("abort", () => looked?.abort());
      const ends = looked.signal;
      const whole = () => take(address, definitions, forget);
      const rest = async () => fill(result, doneReport(await takeRest(address, definitions), ends));
      fill(result, preview(report, ends, { whole, rest }));
    },
  );
  return h("div", { class: "card importer" }, asking, result);
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch (problem) {
    throw { title: "Invalid JSON", reason: `The definitions are not valid JSON: ${problem.message}` };
  }
}

async function take(address, definitions, forget) {
  await post(address, definitions);
  forget();
  notify("Definitions imported.");
}

/** Everything that can be imported. Returns what was done and what was left out. */
async function takeRest(address, definitions) {
  const report = await post(`${address}?skip_unsupported=true`, definitions);
  notify(`Definitions imported without ${entries(report.problems.length)}.`);
  return report;
}

function preview(report, signal, take) {
  const remedy = report.can_skip
    ? "Fix these entries in the file, or import the rest without them"
    : "Fix these entries in the file, then import it again";
  return [h("h3", {}, "Preview"), content(report, PLANNED, "Errors", remedy, signal), closing(report, take)];
}

function doneReport(report, signal) {
  return [h("h3", {}, "Import report"), content(report, DONE, "Left out", "Left out", signal)];
}

/** `problems` is the label of their number, `heading` stands above their list. */
function content(report, states, problems, heading, signal) {
  const count = report.problems.length;
  const changes = changesIn(report);
  return [
    h(
      "div",
      { class: "tiles" },
      Object.keys(states).map((state) => tile(report[state].length, states[state])),
      tile(count, problems, count > 0),
    ),
    count > 0 && problemList(report.problems, heading),
    report.ignored.length > 0 &&
      h("p", { class: "faint" }, `Ignored because Leveret does not support it: ${report.ignored.join(", ")}.`),
    changes > 0 && h("details", {}, h("summary", {}, `Show ${plural(changes, "change")}`), changeTable(report, signal)),
  ];
}

const changesIn = (report) => report.created.length + report.changed.length;
const entries = (count) => plural(count, "entry", "entries");

function tile(count, label, isBad = false) {
  return h("div", { class: `tile ${isBad ? "bad" : ""}` }, h("span", {}, label), h("b", {}, number(count)));
}

function problemList(problems, heading) {
  const shown = problems.slice(0, 100);
  return h(
    "div",
    { class: "problem" },
    h("strong", {}, heading),
    h(
      "ul",
      {},
      shown.map((one) =>
        h("li", {}, h("b", {}, nameOf(one)), `: ${one.cause}; `, h("span", { class: "faint" }, `${one.remedy}.`)),
      ),
    ),
    problems.length > shown.length && h("p", {}, `and ${number(problems.length - shown.length)} more`),
  );
}

function nameOf(one) {
  const name = one.name ?? one.user ?? [one.source, one.destination].filter(Boolean).join(" → ") ?? "";
  return [one.kind.replace("_", " "), name, one.vhost && `in ${one.vhost}`].filter(Boolean).join(" ");
}

function changeTable(report, signal) {
  const rows = ["created", "changed"].flatMap((state) => report[state].map((one) => ({ ...one, state })));
  return new Table({
    columns: [
      { title: "Name", sort: "name", width: "name", value: (row) => row.name },
      { title: "Kind", sort: "kind", width: "m", value: (row) => row.kind.replace("_", " ") },
      { title: "Vhost", sort: "vhost", width: "s", rank: 2, value: (row) => row.vhost ?? "" },
      { title: "Result", sort: "state", width: "s", value: (row) => row.state },
    ],
    source: rowsSource(async () => rows),
    signal,
    noun: "change",
  }).element;
}

function closing(report, take) {
  const changes = changesIn(report);
  const problems = report.problems.length;
  if (problems > 0 && !report.can_skip) return h("p", {}, "Nothing can be imported until these errors are fixed.");
  if (problems > 0 && changes > 0) {
    const text = `${entries(problems)} will be left out, ${plural(changes, "change")} will be made.`;
    return form([h("p", { class: "faint" }, text)], "Import the rest", take.rest);
  }
  if (problems > 0) return h("p", {}, "All other entries in the file exist already: nothing else to import.");
  if (changes === 0) return h("p", {}, "Everything in the file exists already: nothing to import.");
  return form([], `Import ${plural(changes, "change")}`, take.whole);
}
