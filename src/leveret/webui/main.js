// Entry point: shows the UI if the user has a session, otherwise the login.

import { get, onLoggedOut } from "./api.js";
import { fill } from "./dom.js";
import { problemBox } from "./notices.js";
import { ADMIN } from "./pages/admin_pages.js";
import * as channel from "./pages/channel.js";
import * as connection from "./pages/connection.js";
import * as connections from "./pages/connections.js";
import * as deadLetterGroup from "./pages/dead_letter_group.js";
import * as deadLetters from "./pages/dead_letters.js";
import * as exchange from "./pages/exchange.js";
import * as exchanges from "./pages/exchanges.js";
import { showLogin } from "./pages/login.js";
import * as messageTrace from "./pages/message_trace.js";
import * as overview from "./pages/overview.js";
import * as pipelines from "./pages/pipelines.js";
import * as queue from "./pages/queue.js";
import * as queues from "./pages/queues.js";
import * as schedules from "./pages/schedules.js";
import * as stream from "./pages/stream.js";
import * as streams from "./pages/streams.js";
import * as traces from "./pages/traces.js";
import * as vhostTopology from "./pages/vhost_topology.js";
import { Shell } from "./shell.js";

const PAGES = [
  overview,
  queues,
  queue,
  traces,
  traces.anywhere,
  messageTrace,
  exchanges,
  exchange,
  vhostTopology,
  connections,
  connection,
  channel,
  deadLetters,
  deadLetterGroup,
  schedules,
  streams,
  stream,
  pipelines,
  ...ADMIN,
];

const app = /** @type {HTMLElement} */ (document.getElementById("app"));
/** @type {Shell | null} */
let shell = null;

function enter(user) {
  shell = new Shell(PAGES, user, leave);
  fill(app, shell.element);
  shell.start();
}

function leave(reason) {
  if (!shell && app.querySelector(".login")) return;
  shell?.stop();
  shell = null;
  for (const open of document.querySelectorAll("dialog")) open.close(); // it would cover the login
  showLogin(app, enter, reason);
}

onLoggedOut(() => leave(shell ? "Your session has expired. Log in again to continue." : undefined));

get("/api/login").then(
  (user) => (user ? enter(user) : leave()),
  (problem) => fill(app, problemBox(problem)),
);
