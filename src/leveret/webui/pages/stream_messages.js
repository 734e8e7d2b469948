// The messages of a stream, from any offset.

import { path as at, get } from "../api.js";
import { fill, h } from "../dom.js";
import { number } from "../format.js";
import { problemBox } from "../notices.js";
import { bytesOf } from "../payload.js";
import { messageRow, opened } from "./message_content.js";

const SHOWN = 50;
const LARGEST = 2 ** 31; // bytes of a body

/** `names`: the stream, or the partitions of a super stream. */
export function streamMessages(vhost, names, signal) {
  const which = h(
    "select",
    { "aria-label": "Partition", hidden: names.length < 2, onchange: () => look("last") },
    names.map((name) => h("option", { value: name }, name)),
  );
  const offset = h("input", { type: "number", min: "0", placeholder: "Offset", "aria-label": "From offset" });
  const button = (text, from) => h("button", { type: "button", onclick: () => look(from()) }, text);
  const older = button("Older", () => Math.max(shown.from - SHOWN, shown.first));
  const newer = button("Newer", () => shown.to);
  const tools = h(
    "form",
    { class: "table-tools offsets" },
    which,
    offset,
    h("button", { type: "submit" }, "Go to offset"),
    button("First", () => "first"),
    older,
    newer,
    button("Last", () => "last"),
  );
  const list = h("div", { class: "messages" });
  let shown = { from: 0, to: 0, first: 0 };

  async function wholeBody(offset) {
    const query = { offset, limit: 1, truncate: LARGEST };
    const answer = await get(`${at`/api/streams/${vhost}/${which.value}`}/messages`, query, { signal });
    return bytesOf(answer.messages[0]);
  }

  async function look(from) {
    try {
      const answer = await get(
        `${at`/api/streams/${vhost}/${which.value}`}/messages`,
        { offset: from, limit: SHOWN },
        { signal },
      );
      const offsets = answer.messages.map((one) => one.offset);
      shown = {
        from: offsets[0] ?? answer.next_offset,
        to: (offsets.at(-1) ?? answer.next_offset - 1) + 1,
        first: answer.first_offset,
      };
      older.disabled = shown.from <= answer.first_offset;
      newer.disabled = shown.to >= answer.next_offset;
      fill(list, listed(answer, wholeBody));
    } catch (problem) {
      if (problem.name !== "AbortError") fill(list, problemBox(problem));
    }
  }

  tools.addEventListener("submit", (event) => {
    event.preventDefault();
    look(offset.value || "last");
  });
  look("last");
  return h("div", { class: "card browser" }, tools, list);
}

function listed(answer, wholeBody) {
  const { messages } = answer;
  if (!messages.length) {
    return h(
      "p",
      { class: "empty" },
      answer.next_offset > answer.first_offset
        ? `No messages at this offset yet: the next offset is ${number(answer.next_offset)}.`
        : "The stream is empty. Publish a message to see it here.",
    );
  }
  return [
    messages.map((one) => message(one, () => wholeBody(one.offset))),
    h(
      "p",
      { class: "faint note" },
      `Offsets ${number(messages[0].offset)} to ${number(messages.at(-1).offset)} of ` +
        `${number(answer.first_offset)} to ${number(answer.next_offset - 1)}. Browsing does not remove messages.`,
    ),
  ];
}

/** `whole()` loads the body of a message that is truncated here. */
function message(one, whole) {
  const body = bytesOf(one);
  const content = h("div", { class: "message-body" });
  const element = h(
    "details",
    { class: "message" },
    h("summary", {}, h("span", { class: "faint offset" }, number(one.offset)), messageRow(one, body, one.arrived)),
    content,
  );
  element.addEventListener(
    "toggle",
    () => element.open && !content.hasChildNodes() && fill(content, opened(one, body, whole)),
  );
  return element;
}
