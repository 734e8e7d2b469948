// Dialogs that move, copy, delete or retry messages of a queue, after counting them.

import { path as at, get } from "../api.js";
import { fill, h } from "../dom.js";
import { number, plural } from "../format.js";
import { dialog, field, form } from "../forms.js";
import { begin, counted, rateInput, rateOf, SKIPPED, WORDS } from "../jobs.js";
import { FILTERS, filterInput, filterOf } from "../message_filter.js";
import { notifyError, undoable } from "../notices.js";
import { vhostNames } from "../vhosts.js";

export const EXPLAINED = {
  move: "Moves messages to the end of another queue.",
  copy: "Copies messages to the end of another queue.",
  delete: "Deletes messages permanently. They are not dead-lettered.",
  redrive: "Returns dead letters to the queue they were first dead-lettered from.",
};

/** `whenBegun(id, expected)` is called with the new job. `start` presets the filter. */
export function jobDialog(kind, vhost, queue, start, whenBegun) {
  const words = WORDS[kind];
  const offer = h("div", { class: "offer", role: "status" });
  const names = h("datalist", { id: "destinations" });
  const places = h("select", { name: "destination_vhost" }, h("option", { value: vhost }, vhost));
  const placeField = field("Virtual host of the destination", places);
  placeField.hidden = true; // while there is only one
  const needsPlace = kind === "move" || kind === "copy";
  const fields = [
    h("p", { class: "faint" }, EXPLAINED[kind]),
    needsPlace && [
      placeField,
      field(
        "Destination queue",
        h("input", {
          name: "destination",
          required: true,
          list: "destinations",
          autocomplete: "off",
          spellcheck: "false",
        }),
      ),
      names,
    ],
    FILTERS.map((one) => field(one.label, filterInput(one, start[one.name]))),
    h(
      "div",
      { class: "row" },
      field(
        "Maximum messages",
        h("input", { name: "limit", type: "number", min: "1", step: "1", placeholder: "all matching" }),
      ),
      kind === "redrive" && field("Messages per second", rateInput()),
    ),
  ];
  const content = form(fields, "Count messages", async (given) => {
    const job = jobOf(kind, given, vhost);
    const row = await counted(vhost, queue, job);
    fill(offer, result(row, words), row.done > 0 && action(row, job));
  });
  const close = dialog(`${words.title} messages from ${queue}`, [content, offer]);
  content.addEventListener("input", () => fill(offer)); // the count no longer applies
  if (needsPlace) {
    offerQueues(names, vhost, (name) => name !== queue);
    offerVhosts(places, vhost).then((count) => {
      placeField.hidden = count < 2;
    });
    places.addEventListener("change", () =>
      offerQueues(names, places.value, (name) => places.value !== vhost || name !== queue),
    );
  }

  function action(row, job) {
    const label = `${words.title} ${plural(row.done, "message")}`;
    return h(
      "button",
      { type: "button", class: kind === "delete" ? "danger" : "strong", onclick: () => go(row, job) },
      label,
    );
  }

  function go(row, job) {
    close();
    const act = async () => {
      try {
        whenBegun(await begin(vhost, queue, job), row.done);
      } catch (problem) {
        notifyError(problem);
      }
    };
    if (kind === "delete") undoable(`${plural(row.done, "message")} in queue ${queue} will be deleted`, act);
    else act();
  }
}

function result(row, words) {
  const origins = Object.entries(row.origins ?? {});
  return h(
    "div",
    {},
    h(
      "p",
      {},
      h("strong", {}, `${words.would} ${plural(row.done, "message")}`),
      ` of ${number(row.examined)} inspected.`,
    ),
    origins.length > 0 &&
      h("p", {}, `Destination: ${origins.map(([name, count]) => `${name} (${number(count)})`).join(", ")}.`),
    row.skipped > 0 &&
      h("p", { class: "faint" }, `${plural(row.skipped, "message")} would be skipped: ${SKIPPED[row.kind]}.`),
  );
}

function jobOf(kind, given, vhost) {
  const job = { kind, ...rateOf(given), ...filterOf(given) };
  if (given.get("limit")) job.limit = Number(given.get("limit"));
  if (given.get("destination")) job.destination = given.get("destination");
  const other = given.get("destination_vhost");
  if (other && other !== vhost) job.destination_vhost = other;
  return job;
}

/** Returns how many there are. */
async function offerVhosts(select, own) {
  const names = await vhostNames();
  fill(
    select,
    [own, ...names.filter((name) => name !== own)].map((name) => h("option", { value: name }, name)),
  );
  return names.length;
}

async function offerQueues(list, vhost, isOffered) {
  const answer = await get(at`/api/queues/${vhost}`, { page: 1, page_size: 500, sort: "name", columns: "name" }).catch(
    () => null,
  ); // suggestions are optional
  fill(
    list,
    (answer?.items ?? []).filter((one) => isOffered(one.name)).map((one) => h("option", { value: one.name })),
  );
}
