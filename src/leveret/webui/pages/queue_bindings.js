// The bindings of a queue: list, add, delete.

import { get, post } from "../api.js";
import { h } from "../dom.js";
import { dialog, field, form, textInput } from "../forms.js";
import { objectOf, objectText } from "../json_object.js";
import { nameLink } from "../layout.js";
import { notify } from "../notices.js";
import { rowsSource, Table } from "../table.js";
import { suggestionInput } from "./admin_suggestions.js";
import { bindingInPath, KEY_HINT, unbindButton } from "./exchange_bindings.js";
import { exchangeLink, shownExchange } from "./exchange_links.js";

const SEVERAL = 8; // number of rows from which a filter is shown

export function queueBindings(address, vhost, signal) {
  const load = (signal) => get(`${address}/bindings`, undefined, { signal });
  const table = new Table({
    columns: [
      {
        title: "Source",
        sort: "source",
        width: "name",
        value: (row) => row.source,
        show: (name) => nameLink(exchangeLink(vhost, name), shownExchange(name)),
      },
      { title: "Routing key", sort: "routing_key", value: (row) => row.routing_key },
      { title: "Arguments", rank: 2, value: (row) => objectText(row.arguments) },
      {
        title: "",
        width: "button",
        value: ({ arguments: _, ...binding }) => binding,
        show: (binding) => (binding.source ? unbindButton(binding, () => table.refresh()) : ""),
      },
    ],
    source: rowsSource(load, (row) => `${row.source} ${row.routing_key}`),
    signal,
    noun: "binding",
    toolsFrom: SEVERAL,
    empty: "No bindings.",
  });
  return table;
}

/** Binds the queue to an exchange. */
export function bindDialog(vhost, queue, signal, whenDone) {
  const source = suggestionInput(
    { name: "source", required: true },
    () => `/api/exchanges/${encodeURIComponent(vhost)}`,
    signal,
  );
  const close = dialog(
    `Add binding to ${queue}`,
    form(
      [
        field("Source exchange", source.element),
        field("Routing key", textInput("routing_key"), KEY_HINT),
        field(
          "Arguments",
          h("textarea", { name: "arguments", rows: "2", spellcheck: "false", placeholder: '{"x-match": "all"}' }),
          "JSON object (optional).",
        ),
      ],
      "Add binding",
      async (given) => {
        const binding = { vhost, source: given.get("source"), destination_type: "queue", destination: queue };
        await post(bindingInPath(binding), {
          routing_key: given.get("routing_key"),
          arguments: objectOf(given.get("arguments"), "Arguments"),
        });
        close();
        notify(`Binding from ${binding.source} to ${queue} added.`);
        whenDone();
      },
    ),
  );
}
