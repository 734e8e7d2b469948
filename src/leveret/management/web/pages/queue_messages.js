// What waits in a queue, looked at without taking it.

import { get } from "../api.js";
import { fill, h } from "../dom.js";
import { bytes, number } from "../format.js";
import { problemBox } from "../notices.js";
import { asHex, asJson, asText, bytesOf, isReadable } from "../payload.js";

const MOST = 50;

export function messageBrowser(address, signal) {
  const contains = h("input", { type: "search", placeholder: "Body contains …", "aria-label": "Body contains" });
  const selector = h("input", { type: "search", placeholder: "Selector, such as colour = 'red'", "aria-label": "Selector over headers" });
  const list = h("div", { class: "messages" });
  const form = h("form", { class: "table-tools" }, contains, selector, h("button", { type: "submit" }, "Look"));
  let opened = false;

  async function look() {
    opened = true;
    try {
      const answer = await get(`${address}/messages`, { limit: MOST, contains: contains.value, selector: selector.value }, { signal });
      fill(list, listed(answer, contains.value || selector.value));
    } catch (problem) {
      if (problem.name !== "AbortError") fill(list, problemBox(problem));
    }
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    look();
  });
  look();
  return { element: h("div", { class: "card browser" }, form, list), refresh: () => opened && look() };
}

function listed(answer, isFiltered) {
  const messages = answer.messages ?? [];
  if (!messages.length) {
    return h("p", { class: "empty" }, isFiltered ? `None of ${number(answer.looked_at)} messages fits.` : "No message waits here. Publish one, or let a client send some.");
  }
  return [
    messages.map(message),
    h("p", { class: "faint note" }, answer.is_complete ? `${number(messages.length)} shown, all that there are. They stay in the queue.` : `The first ${number(messages.length)} shown. They stay in the queue.`),
  ];
}

function message(one, at) {
  const body = bytesOf(one);
  const preview = asText(body).replace(/\s+/g, " ").slice(0, 160);
  const content = h("div", { class: "message-body" });
  const element = h(
    "details",
    { class: "message" },
    h("summary", {}, h("span", { class: "faint" }, `${at + 1}`), h("code", { class: "preview" }, isReadable(body) ? preview || "(empty)" : asHex(body.slice(0, 16))), h("span", { class: "faint right" }, bytes(one.payload_bytes)), one.redelivered && h("span", { class: "badge warn" }, "redelivered")),
    content,
  );
  element.addEventListener("toggle", () => element.open && !content.hasChildNodes() && fill(content, opened(one, body)));
  return element;
}

function opened(one, body) {
  const shown = h("pre", { class: "payload", tabindex: "0" });
  const views = { JSON: () => asJson(body), Text: () => asText(body), Hex: () => asHex(body) };
  const buttons = Object.keys(views).map((name) => h("button", { type: "button", onclick: () => choose(name) }, name));

  function choose(name) {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.textContent === name));
    shown.textContent = views[name]();
  }

  choose(one.payload_format === "json" ? "JSON" : isReadable(body) ? "Text" : "Hex");
  const { headers, ...properties } = one.properties ?? {};
  return [
    h("div", { class: "spans", role: "group", "aria-label": "How the body is shown" }, buttons),
    shown,
    one.truncated && h("p", { class: "faint note" }, `Cut: the whole has ${bytes(one.payload_bytes)}.`),
    h("dl", {}, facts({ exchange: one.exchange || "(default)", "routing key": one.routing_key, offset: one.offset, deliveries: one.delivery_count, ...properties })),
    headers && Object.keys(headers).length > 0 && [h("h3", {}, "Headers"), h("dl", {}, facts(headers))],
  ];
}

function facts(values) {
  return Object.entries(values)
    .filter(([, value]) => value !== undefined && value !== null)
    .map(([name, value]) => [h("dt", {}, name), h("dd", {}, typeof value === "object" ? JSON.stringify(value, null, 1) : String(value))]);
}
