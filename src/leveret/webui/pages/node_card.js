// Resources of one node: memory, file descriptors, sockets, disk, uptime.

import { h } from "../dom.js";
import { bytes, duration, isNumber, number } from "../format.js";

export const MAY_NOT_SEE = "Shown to users with the tag monitoring or administrator.";

export function maySeeNodes(user) {
  return user.tags.includes("monitoring") || user.tags.includes("administrator");
}

/** The content of the card. */
export function nodeFacts(node) {
  return [
    h("p", { class: "name" }, node.name),
    gauge("Memory", node.mem_used, node.mem_limit, bytes, " high watermark"),
    gauge("File descriptors", node.fd_used, node.fd_total, number),
    gauge("Sockets", node.sockets_used, node.sockets_total, number),
    fact("Free disk space", `${bytes(node.disk_free)} (alarm below ${bytes(node.disk_free_limit)})`),
    fact("Uptime", duration(isNumber(node.uptime) ? node.uptime / 1000 : undefined)),
  ];
}

function gauge(label, used, limit, show, limitName = "") {
  if (!isNumber(used) || !isNumber(limit) || limit <= 0) return fact(label, show(used));
  return h(
    "div",
    { class: "gauge" },
    h("span", {}, label),
    h("meter", { min: 0, max: limit, high: limit * 0.8, value: Math.min(used, limit), "aria-label": label }),
    h("span", { class: "faint" }, `${show(used)} of ${show(limit)}${limitName}`),
  );
}

export function fact(label, value) {
  return h("div", { class: "fact" }, h("span", {}, label), h("span", {}, value));
}
