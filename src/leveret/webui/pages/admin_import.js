// Import of definitions: a preview first, then the import.

import { path as at, post } from "../api.js";
import { fill, h } from "../dom.js";
import { number, plural } from "../format.js";
import { field, form } from "../forms.js";
import { notify } from "../notices.js";
import { rowsSource, Table } from "../table.js";

const STATES = { created: "To create", changed: "To change", existing: "Unchanged" };

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
  file.addEventListener("change", async () => {
    forget();
    const chosen = file.files?.[0];
    if (chosen) text.value = await chosen.text();
  });
  for (const control of [text, into]) control.addEventListener("input", forget);
  const asking = form(
    [field("Choose a file", file), field("Or paste JSON", text), field("Import into", into)],
    "Preview import",
    async () => {
      forget();
      const definitions = parsed(text.value);
      const address = into.value ? at`/api/definitions/${into.value}` : "/api/definitions";
      const report = await post(`${address}?dry_run=true`, definitions, { signal });
      looked = new AbortController();
      signal.addEventListener("abort", () => looked?.abort());
      fill(
        result,
        reportOf(report, looked.signal, () => take(address, definitions, forget)),
      );
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

function reportOf(report, signal, take) {
  const changes = report.created.length + report.changed.length;
  const problems = report.problems.length;
  return [
    h("h3", {}, "Preview"),
    h(
      "div",
      { class: "tiles" },
      Object.keys(STATES).map((state) => tile(report[state].length, STATES[state])),
      tile(problems, "Errors", problems > 0),
    ),
    problems > 0 && problemList(report.problems),
    report.ignored.length > 0 &&
      h("p", { class: "faint" }, `Ignored because Leveret does not support it: ${report.ignored.join(", ")}.`),
    changes > 0 && h("details", {}, h("summary", {}, `Show ${plural(changes, "change")}`), changeTable(report, signal)),
    closing(changes, problems, take),
  ];
}

function tile(count, label, isBad = false) {
  return h("div", { class: `tile ${isBad ? "bad" : ""}` }, h("span", {}, label), h("b", {}, number(count)));
}

function problemList(problems) {
  const shown = problems.slice(0, 100);
  return h(
    "div",
    { class: "problem" },
    h("strong", {}, "Fix these entries in the file, then import it again"),
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

function closing(changes, problems, take) {
  if (problems > 0) return h("p", {}, "Nothing can be imported until these errors are fixed.");
  if (changes === 0) return h("p", {}, "Everything in the file exists already: nothing to import.");
  return form([], `Import ${plural(changes, "change")}`, take);
}
