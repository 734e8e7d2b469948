// Keyboard shortcuts of all pages, and the dialog that lists them.

import { h } from "./dom.js";
import { dialog } from "./forms.js";

const SHORTCUTS = [
  ["Ctrl K", "Search pages, objects and actions"],
  ["/", "Go to the filter of the page, or search"],
  ["?", "Show this list"],
  ["Esc", "Close a dialog"],
];
const DOCS = "https://www.rabbitmq.com/docs";

/**
 * Calls `search` or focuses the filter of the page. Keys that are typed into a field or a dialog are left alone.
 * @param {KeyboardEvent} event
 * @param {() => void} search
 */
export function pressed(event, search) {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") return taken(event, search);
  if (
    event.ctrlKey ||
    event.metaKey ||
    event.altKey ||
    isTyping(event.target) ||
    document.querySelector("dialog[open]")
  )
    return;
  if (event.key === "?") taken(event, showHelp);
  else if (event.key === "/") taken(event, () => focusFilter() || search());
}

/**
 * @param {KeyboardEvent} event
 * @param {() => void} act
 */
function taken(event, act) {
  event.preventDefault();
  act();
}

/** @param {EventTarget | null} target */
function isTyping(target) {
  return target instanceof HTMLElement && target.matches("input, textarea, select, [contenteditable]");
}

/** Whether the page has a filter. */
function focusFilter() {
  const filters = /** @type {NodeListOf<HTMLInputElement>} */ (document.querySelectorAll('main input[type="search"]'));
  const filter = [...filters].find((one) => one.checkVisibility());
  filter?.focus();
  filter?.select();
  return Boolean(filter);
}

/** The dialog: shortcuts, and where to read more. */
export function showHelp() {
  const link = h("a", { rel: "noopener noreferrer", target: "_blank" }, "RabbitMQ's documentation");
  link.href = DOCS;
  const close = dialog(
    "Help",
    h(
      "div",
      { class: "help" },
      h("h3", {}, "Keyboard shortcuts"),
      h(
        "dl",
        { class: "shortcuts" },
        SHORTCUTS.map(([keys, text]) => [h("dt", {}, h("kbd", {}, keys)), h("dd", {}, text)]),
      ),
      h("h3", {}, "Documentation"),
      h(
        "ul",
        {},
        h("li", {}, h("a", { href: "#/api", onclick: () => close() }, "HTTP API"), " of this broker, with examples"),
        h("li", {}, h("a", { href: "#/docs", onclick: () => close() }, "Guide"), " to Leveret, of this version"),
        h("li", {}, link, " for AMQP 0-9-1, clients and concepts"),
      ),
    ),
  );
}
