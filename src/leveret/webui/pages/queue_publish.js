// Dialog that publishes a message to a queue or an exchange.

import { path as at, post } from "../api.js";
import { h } from "../dom.js";
import { check, choice, dialog, field, form, textInput } from "../forms.js";
import { objectOf } from "../json_object.js";
import { notify } from "../notices.js";

const DEFAULT_EXCHANGE = "amq.default";

export function publishDialog(vhost, queue, whenDone) {
  openDialog(
    `Publish message to ${queue}`,
    at`/api/exchanges/${vhost}/${DEFAULT_EXCHANGE}/publish`,
    () => queue,
    [],
    whenDone,
  );
}

/** `exchange` as in paths of the API: amq.default for the default exchange. */
export function exchangePublishDialog(vhost, exchange, whenDone) {
  const key = textInput("routing_key");
  openDialog(
    `Publish message to ${exchange}`,
    at`/api/exchanges/${vhost}/${exchange}/publish`,
    (given) => given.get("routing_key"),
    [field("Routing key", key)],
    whenDone,
  );
}

function openDialog(title, address, keyOf, fields, whenDone) {
  const body = h("textarea", { name: "payload", rows: "6", spellcheck: "false" });
  const content = form(
    [
      fields,
      field("Body", body),
      h(
        "div",
        { class: "row" },
        field("Body encoding", choice("encoding", ["string", "base64"], "string")),
        field("Content type", h("input", { name: "content_type", placeholder: "application/json" })),
      ),
      field(
        "Headers",
        h("textarea", { name: "headers", rows: "2", spellcheck: "false", placeholder: '{"colour": "red"}' }),
        "JSON object (optional).",
      ),
      check("Persistent: survives a broker restart in a durable queue", "persistent", true),
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

function messageOf(given, key) {
  const properties = {
    delivery_mode: given.has("persistent") ? 2 : 1,
    headers: objectOf(given.get("headers"), "Headers"),
  };
  if (given.get("content_type")) properties.content_type = given.get("content_type");
  return { routing_key: key, payload: given.get("payload"), payload_encoding: given.get("encoding"), properties };
}
