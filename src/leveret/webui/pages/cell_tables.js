// Tables of the nodes of a cell, or of several: members and hand-over, servers of the engine, take-overs.

import { post } from "../api.js";
import { h } from "../dom.js";
import { ago, bytes, duration, isNumber, NONE, number } from "../format.js";
import { dialog, form } from "../forms.js";
import { badge } from "../layout.js";
import { notify } from "../notices.js";
import { numeric } from "../table.js";
import { isAdministrator } from "./admin_frame.js";
import { moment } from "./connection_format.js";

const FIRST = "c1"; // of several cells: it serves HTTP
const LATE = 5; // seconds of lag

/** @param {boolean} areCells whether the rows are members of several cells, with fewer facts of each */
export function memberColumns(user, areCells = false) {
  const cell = { title: "Cell", width: "s", value: (row) => row.cell };
  const facts = [
    { title: "Last seen", rank: 3, width: "m", value: (row) => seen(row) },
    { title: "AMQP address", rank: 4, value: (row) => row.endpoints.amqps ?? row.endpoints.amqp ?? NONE },
  ];
  const columns = [
    ...(areCells ? [cell] : []),
    { title: "Node", width: "name", value: (row) => row.name },
    { title: "Role", width: "role", value: (row) => [row.role, row.connected, row.problem], show: roleBadges },
    ...(areCells ? [] : [{ title: "Version", rank: 3, width: "s", value: (row) => row.version }]),
    numeric("Lag (records)", "lag_records", number, { rank: 3 }),
    ...(areCells ? [] : [numeric("Lag (bytes)", "lag_bytes", bytes, { rank: 3 })]),
    numeric("Lag (time)", "lag_seconds", lagTime, { rank: 2 }),
    ...(areCells ? [] : facts),
  ].map((column) => ({ ...column, sort: undefined }));
  return isAdministrator(user) ? [...columns, HAND_OVER] : columns;
}

function roleBadges([role, isConnected, problem]) {
  const kinds = { down: "warn", "no leader": "warn", leader: "strong" };
  return [
    badge(role, kinds[role] ?? "", problem),
    role === "standby" && !isConnected && badge("no reports", "warn", problem),
  ];
}

function lagTime(seconds) {
  if (!isNumber(seconds)) return NONE;
  return seconds > LATE ? badge(duration(seconds), "warn") : duration(seconds);
}

function seen(row) {
  if (row.connected) return "now";
  return isNumber(row.last_seen) ? ago(Math.max(Date.now() / 1000 - row.last_seen, 0)) : NONE;
}

const HAND_OVER = {
  title: "",
  width: "handover",
  align: "right",
  value: (row) => row.role === "standby" && row.connected && [row.name, row.cell],
  show: (target) => target && handOverButton(target),
};

function handOverButton([name, cell]) {
  const title = handOverTitle(name, cell);
  const open = () => handOverDialog(name, cell);
  return h("button", { type: "button", class: "in-row", "aria-label": title, onclick: open }, "Hand over …");
}

/** @param {string | undefined} cell one of several cells */
function handOverTitle(name, cell) {
  return cell ? `Hand over ${cell} to ${name}` : `Hand over to ${name}`;
}

function handOverDialog(name, cell) {
  const what = cell ? `the leader of cell ${cell}` : "the leader";
  const isOfHttp = !cell || cell === FIRST;
  const text =
    `Node ${name} becomes ${what}, usually within a second. Clients ${cell ? "of the cell " : ""}are disconnected ` +
    "once and reconnect; transient messages and exclusive queues are lost." +
    (isOfHttp ? " You will have to log in again." : "");
  const content = form([h("p", {}, text)], "Hand over", async () => {
    const { to } = await post("/api/cluster/handover", { to: name, cell });
    close();
    notify(`Node ${to} takes over.`);
  });
  const close = dialog(handOverTitle(name, cell), content);
}

export const SERVER_COLUMNS = [
  { title: "Server", width: "name", value: (row) => row.name },
  { title: "State", width: "kind", value: (row) => [row.reachable, row.leader, row.current], show: serverBadges },
  { title: "Version", rank: 3, width: "s", value: (row) => row.version || NONE },
  numeric("Lag (operations)", "lag", number, { rank: 2, width: "m" }),
  { title: "Monitoring address", rank: 4, value: (row) => row.url || NONE },
].map((column) => ({ ...column, sort: undefined }));

function serverBadges([isReachable, isLeader, isCurrent]) {
  if (!isReachable) return badge("unreachable", "warn");
  return [badge(isLeader ? "stream leader" : "running"), !isCurrent && badge("behind", "warn")];
}

export const TAKE_OVER_COLUMNS = [
  { title: "Time", width: "moment", value: (row) => moment(row.at * 1000) },
  { title: "New leader", rank: 2, width: "name", value: (row) => row.node },
  { title: "Reason", value: (row) => row.reason },
  numeric("Epoch", "epoch", number, { rank: 2, width: "s" }),
  numeric("Duration", "seconds", duration, { rank: 2, width: "s" }),
].map((column) => ({ ...column, sort: undefined }));

/** The alert while the engine stores nothing. */
export function notAnswering() {
  const text = "The NATS servers do not store messages: publishers are not confirmed. Check the servers below.";
  return h("div", { class: "problem", role: "alert" }, h("strong", {}, "Engine not answering"), h("p", {}, text));
}
