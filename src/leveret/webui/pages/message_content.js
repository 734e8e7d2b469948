// One message: its row in a list, and its body and properties when it is opened.

import { copyButton } from "../clipboard.js";
import { fill, h } from "../dom.js";
import { downloadButton } from "../download.js";
import { facts } from "../facts.js";
import { bytes } from "../format.js";
import { badge } from "../layout.js";
import { asHex, asJson, asText, gunzipped, isGzip, isJson, isReadable } from "../payload.js";
import { celeryTask, taskFacts, taskPreview } from "./celery_task.js";
import { momentWithSeconds } from "./connection_format.js";
import { shownExchange } from "./exchange_links.js";

/** The parts of a row behind its number. */
export function messageRow(one, body, time = one.properties?.timestamp) {
  const task = celeryTask(one);
  return [
    task && badge(task.task, "", `Celery task ${task.id}`),
    h("code", { class: "preview" }, task ? taskPreview(task) : previewOf(body)),
    task?.eta && badge(`ETA ${task.eta}`),
    task && task.retries > 0 && badge(`retry ${task.retries}`, "warn"),
    one.redelivered && badge("redelivered", "warn"),
    h("span", { class: "faint key-of", title: `Routing key ${one.routing_key}` }, one.routing_key),
    time && h("span", { class: "faint arrived", title: "Time of the message" }, momentWithSeconds(time * 1000)),
    h("span", { class: "faint right size-of" }, bytes(one.payload_bytes)),
  ];
}

function previewOf(body) {
  if (!isReadable(body)) return isGzip(body) ? "(gzip)" : asHex(body.slice(0, 16));
  return asText(body.slice(0, 640)).replace(/\s+/g, " ").slice(0, 160) || "(empty)";
}

/** `whole()` loads the body if it is truncated here. */
export function opened(one, body, whole) {
  const { headers, ...properties } = one.properties ?? {};
  const task = celeryTask(one);
  return [
    task && [h("h3", {}, "Celery task"), h("dl", {}, facts(taskFacts(task)))],
    bodyView(one, body, whole),
    one.truncated && h("p", { class: "faint note" }, `Truncated: the whole body has ${bytes(one.payload_bytes)}.`),
    h(
      "dl",
      {},
      facts({
        exchange: shownExchange(one.exchange),
        "routing key": one.routing_key,
        offset: one.offset,
        "delivery count": one.delivery_count,
        ...properties,
        timestamp: properties.timestamp && momentWithSeconds(properties.timestamp * 1000),
      }),
    ),
    headers && Object.keys(headers).length > 0 && [h("h3", {}, "Headers"), h("dl", {}, facts(headers))],
  ];
}

function bodyView(one, body, whole) {
  const shown = h("pre", { class: "payload", tabindex: "0" });
  const plain = { JSON: () => asJson(body), Text: () => asText(body), Hex: () => asHex(body) };
  const views = isGzip(body) ? { ...plain, Gunzip: () => unpacked(body) } : plain;
  const buttons = Object.keys(views).map((name) => h("button", { type: "button", onclick: () => choose(name) }, name));

  async function choose(name) {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.textContent === name));
    shown.classList.toggle("bytes", name === "Hex"); // fixed columns
    shown.textContent = await views[name]();
  }

  choose(firstView(one, body));
  const load = () => (one.truncated && whole ? whole() : body);
  return h(
    "div",
    {},
    h(
      "div",
      { class: "body-tools" },
      h("div", { class: "spans", role: "group", "aria-label": "Body format" }, buttons),
      h(
        "div",
        { class: "spans" },
        copyButton(() => shown.textContent ?? ""),
        (!one.truncated || whole) && downloadButton("Download", fileName(one), load),
      ),
    ),
    fill(h("div", {}), shown),
  );
}

function firstView(one, body) {
  if (isGzip(body)) return "Gunzip";
  if (one.payload_format === "json") return "JSON";
  return isReadable(body) ? "Text" : "Hex";
}

/** Bounded: a small body can contain gigabytes. */
async function unpacked(body) {
  const inside = await gunzipped(body);
  if (!inside.length) return "The body cannot be decompressed.";
  if (isJson(inside)) return asJson(inside);
  return isReadable(inside) ? asText(inside) : asHex(inside.slice(0, 65536));
}

export function fileName(one) {
  const type = String(one.properties?.content_type ?? "");
  const ending = type.endsWith("json") ? "json" : type.startsWith("text/") ? "txt" : "bin";
  const id = one.properties?.message_id || one.id || one.offset || "message";
  return `${String(id)
    .replace(/[^\w.-]+/g, "_")
    .slice(0, 80)}.${isZipped(one) ? `${ending}.gz` : ending}`;
}

function isZipped(one) {
  return one.properties?.content_encoding === "gzip";
}
