// The graph of a Spark query as boxes: sources, steps and sink, in the order in which rows pass them.

import { h } from "../dom.js";
import { number } from "../format.js";
import { link } from "../router.js";

const MOST_SOURCES = 8;

/** The stages of the query, each with its boxes. */
export function queryFlow(query) {
  const sources = query.sources.flatMap((source) => sourceBoxes(source, query.vhost));
  const left = sources.length - MOST_SOURCES;
  const stages = [
    [...sources.slice(0, MOST_SOURCES), left > 0 && box("more", `and ${number(left)} more`, "")],
    ...query.steps.map((step) => [stepBox(step)]),
    [box("sink", query.sink ?? "unknown", "sink")],
  ];
  if (!sources.length) stages[0] = [box("source", "unknown", "source")];
  return h(
    "ol",
    { class: "flow", "aria-label": "Graph of the query" },
    stages.map((boxes) => h("li", {}, boxes)),
  );
}

function sourceBoxes(source, home) {
  if (!source.reads.length) return [box("source", source.description ?? "unknown", "source")];
  return source.reads.map((read) => {
    const vhost = read.vhost ?? home;
    const isLeased = read.lease !== undefined;
    const hint = isLeased ? `queue, lease ${number(read.lease)}` : `stream, next offset ${number(read.offset)}`;
    const address = isLeased ? link`/queues/${vhost}/${read.queue}` : link`/streams/${vhost}/${read.queue}`;
    return box("source", vhost ? h("a", { href: address }, read.queue) : read.queue, hint);
  });
}

/** "dedup: by message-id": the name of the step and its options. */
function stepBox(step) {
  const [name, ...options] = step.split(": ");
  return box("step", name, options.join(": "));
}

function box(kind, name, hint) {
  return h("div", { class: `flow-box ${kind}` }, h("b", {}, name), hint && h("span", { class: "faint" }, hint));
}
