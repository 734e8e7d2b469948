// Dialog that publishes a message to a queue or an exchange.

import { path as at, post } from "../api.js";
import { h } from "../dom.js";
import { check, choice, dialog, field, form, textInput } from "../forms.js";
import { objectOf } from "../json_object.js";
import { notify } from "../notices.js";
import { exchangeInPath, shownExchange } from "./exchange_links.js";

/**
 * Name in the API, label, properties of the input.
 * @type {[string, string, import("../dom.js").Properties][]}
 */
const PROPERTIES = [
  ["content_type", "Content type", { placeholder: "application/json" }],
  ["content_encoding", "Content encoding", { placeholder: "utf-8" }],
  ["priority", "Priority", { type: "number", min: "0", max: "255" }],
  ["expiration", "Expiration", { inputmode: "numeric", pattern: "[0-9]*", placeholder: "milliseconds" }],
  ["message_id", "Message ID", {}],
  ["correlation_id", "Correlation ID", {}],
  ["reply_to", "Reply to", {}],
  ["type", "Type", {}],
  ["timestamp", "Timestamp", { type: "datetime-local", step: "1" }],
  ["user_id", "User ID", { placeholder: "your user name" }],
  ["app_id", "App ID", {}],
  ["cluster_id", "Cluster ID", {}],
];
const NUMBERS = new Set(["priority"]);

export function publishDialog(vhost, queue, whenDone) {
  openDialog(`Publish message to ${queue}`, publishAddress(vhost, ""), () => queue, [], whenDone);
}

/** `exchange` is empty for the default exchange. */
export function exchangePublishDialog(vhost, exchange, whenDone) {
  openDialog(
    `Publish message to ${shownExchange(exchange)}`,
    publishAddress(vhost, exchange),
    (given) => given.get("routing_key"),
    [field("Routing key", textInput("routing_key"))],
    whenDone,
  );
}

const publishAddress = (vhost, exchange) => at`/api/exchanges/${vhost}/${exchangeInPath(exchange)}/publish`;

function openDialog(title, address, keyOf, fields, whenDone) {
  const body = h("textarea", { name: "payload", rows: "6", spellcheck: "false" });
  const content = form(
    [
      fields,
      field("Body", body),
      field("Body encoding", choice("encoding", ["string", "base64"], "string")),
      field(
        "Headers",
        h("textarea", { name: "headers", rows: "2", spellcheck: "false", placeholder: '{"colour": "red"}' }),
        "JSON object (optional).",
      ),
      check("Persistent: survives a broker restart in a durable queue", "persistent", true),
      h(
        "details",
        { class: "more-fields" },
        h("summary", {}, "Properties"),
        h("div", { class: "row" }, PROPERTIES.map(propertyField)),
      ),
    ],
    "Publish message",
    async (given) => {
      const answer = await post(address, messageOf(given, keyOf(given)));
      notify(answer.routed ? "Message published." : "Message published, but not routed to any queue.");
      whenDone();
    },
  );
  dialog(title, content);
}

/** @param {[string, string, import("../dom.js").Properties]} property */
function propertyField([name, label, properties]) {
  return field(label, textInput(name, properties));
}

function messageOf(given, key) {
  const properties = {
    delivery_mode: given.has("persistent") ? 2 : 1,
    headers: objectOf(given.get("headers"), "Headers"),
  };
  for (const [name] of PROPERTIES) {
    const value = given.get(name);
    if (value) properties[name] = propertyOf(name, value);
  }
  return { routing_key: key, payload: given.get("payload"), payload_encoding: given.get("encoding"), properties };
}

function propertyOf(name, value) {
  if (name === "timestamp") return Math.floor(new Date(value).getTime() / 1000);
  return NUMBERS.has(name) ? Number(value) : value;
}
