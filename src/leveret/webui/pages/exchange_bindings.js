// Incoming or outgoing bindings of an exchange: list, add, delete.
//
// `end` is the role of the exchange in the bindings: "source" (outgoing) or "destination" (incoming).

import { path as at, get, post, remove } from "../api.js";
import { h } from "../dom.js";
import { choice, dialog, field, form, textInput } from "../forms.js";
import { objectOf, objectText } from "../json_object.js";
import { nameLink } from "../layout.js";
import { filteredSource } from "../local_filter.js";
import { notify, undoable } from "../notices.js";
import { link } from "../router.js";
import { Table } from "../table.js";
import { exchangeInPath, exchangeLink, shownExchange } from "./exchange_links.js";

export const KEY_HINT = "In a topic exchange, * matches one word and # any number of words.";
const NO_KEY = "with an empty routing key";
const EMPTY = {
  source: "No outgoing bindings: messages published to this exchange are dropped. Add a binding to a queue.",
  destination: "No incoming bindings.",
};

export function bindingsTable(vhost, exchange, end, whenChanged, signal) {
  const address = at`/api/exchanges/${vhost}/${exchangeInPath(exchange)}/bindings/`;
  const other = end === "source" ? "destination" : "source";
  const ask = (question, signal) => get(`${address}${end}`, question, { signal });
  const table = new Table({
    columns: [
      {
        title: end === "source" ? "Destination" : "Source",
        sort: other,
        width: "name",
        value: (row) => [row.destination_type, row[other]],
        show: ([kind, name]) => otherEnd(vhost, end === "source" ? kind : "exchange", name),
      },
      { title: "Routing key", sort: "routing_key", value: (row) => row.routing_key },
      { title: "Arguments", rank: 2, value: (row) => objectText(row.arguments) },
      ...(exchange
        ? [
            {
              title: "",
              width: "button",
              value: ({ arguments: _, ...binding }) => binding,
              show: (binding) => unbindButton(binding, whenChanged),
            },
          ]
        : []),
    ],
    source: filteredSource(
      ask,
      (row) => `${row[other]} ${row.routing_key} ${objectText(row.arguments)}`,
      () => {
        table.search.hidden = true; // the broker filters by name, and bindings have no name
      },
    ),
    signal,
    sort: other,
    noun: "binding",
    empty: EMPTY[end],
  });
  table.search.placeholder = "Filter bindings";
  return table;
}

function otherEnd(vhost, kind, name) {
  const target = kind === "queue" ? link`/queues/${vhost}/${name}` : exchangeLink(vhost, name);
  return [nameLink(target, shownExchange(name)), kind === "exchange" && h("span", { class: "faint" }, " exchange")];
}

/** The path of a binding in the API, without its properties_key. */
export function bindingInPath({ vhost, source, destination_type: kind, destination }) {
  return kind === "queue"
    ? at`/api/bindings/${vhost}/e/${exchangeInPath(source)}/q/${destination}`
    : at`/api/bindings/${vhost}/e/${exchangeInPath(source)}/e/${exchangeInPath(destination)}`;
}

/** `whenChanged()` is called after the binding was deleted. */
export function unbindButton(binding, whenChanged) {
  const { source, destination, routing_key: key } = binding;
  const described = `Binding ${key || NO_KEY} from ${source} to ${destination}`;
  const act = async () => {
    await remove(`${bindingInPath(binding)}/${encodeURIComponent(binding.properties_key)}`);
    notify(`${described} deleted.`);
  };
  const unbind = () => undoable(`${described} will be deleted`, act, whenChanged);
  return h(
    "button",
    {
      type: "button",
      class: "quiet danger small",
      "aria-label": `Unbind ${destination} from ${source} by ${key}`,
      onclick: unbind,
    },
    "Unbind",
  );
}

/** Adds a binding in which the exchange has the role `end`. */
export function bindingDialog(vhost, exchange, end, whenChanged) {
  const name = textInput("other", { required: true });
  const ends =
    end === "source"
      ? [field("Destination type", choice("kind", ["queue", "exchange"], "queue")), field("Destination", name)]
      : [field("Source exchange", name)];
  const close = dialog(
    end === "source" ? `Add binding from ${exchange}` : `Add binding to ${exchange}`,
    form(
      [
        h("div", { class: "row" }, ends),
        field("Routing key", textInput("routing_key"), KEY_HINT),
        field(
          "Arguments",
          h("textarea", {
            name: "arguments",
            rows: "2",
            spellcheck: "false",
            placeholder: '{"x-match": "all", "colour": "red"}',
          }),
          "JSON object (optional).",
        ),
      ],
      "Add binding",
      async (given) => {
        const other = given.get("other");
        const binding =
          end === "source"
            ? { vhost, source: exchange, destination_type: given.get("kind"), destination: other }
            : { vhost, source: other, destination_type: "exchange", destination: exchange };
        await post(bindingInPath(binding), {
          routing_key: given.get("routing_key"),
          arguments: objectOf(given.get("arguments"), "Arguments"),
        });
        close();
        notify(`Binding from ${binding.source} to ${binding.destination} added.`);
        whenChanged();
      },
    ),
  );
  name.focus();
}
