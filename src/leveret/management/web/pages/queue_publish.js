// One message into a queue, by the default exchange.

import { path as at, post } from "../api.js";
import { h } from "../dom.js";
import { check, choice, dialogue, field, form } from "../forms.js";
import { tell } from "../notices.js";

export function publishDialogue(vhost, name, whenDone) {
  const body = h("textarea", { name: "payload", rows: "6", spellcheck: "false" });
  const content = form(
    [
      field("Body", body),
      h("div", { class: "row" }, field("Body is given as", choice("encoding", ["string", "base64"], "string")), field("Content type", h("input", { name: "content_type", placeholder: "application/json" }))),
      field("Headers", h("textarea", { name: "headers", rows: "2", spellcheck: "false", placeholder: '{"colour": "red"}' }), "A JSON object; may be left empty."),
      check("Persistent: survives a restart in a durable queue", "persistent", true),
    ],
    "Publish",
    async (given) => {
      const properties = { delivery_mode: given.has("persistent") ? 2 : 1, headers: headersOf(given.get("headers")) };
      if (given.get("content_type")) properties.content_type = given.get("content_type");
      const message = { routing_key: name, payload: given.get("payload"), payload_encoding: given.get("encoding"), properties };
      const answer = await post(at`/api/exchanges/${vhost}/${"amq.default"}/publish`, message);
      tell(answer.routed ? "Published." : "Published, but it reached no queue.");
      whenDone();
    },
  );
  dialogue(`Publish to ${name}`, content);
  body.focus();
}

function headersOf(text) {
  if (!text.trim()) return {};
  let value = null;
  try {
    value = JSON.parse(text);
  } catch (problem) {
    throw { title: "Headers not accepted", reason: `They are not JSON: ${problem.message}` };
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw { title: "Headers not accepted", reason: 'They must be a JSON object, such as {"colour": "red"}.' };
  }
  return value;
}
