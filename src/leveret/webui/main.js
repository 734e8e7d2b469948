// Entry point: shows the UI if the user has a session, otherwise the login.

import { get, onLoggedOut } from "./api.js";
import { fill } from "./dom.js";
import { problemBox } from "./notices.js";
import { actionsFor } from "./pages/actions.js";
import { ADMIN } from "./pages/admin_pages.js";
import * as allChannels from "./pages/all_channels.js";
import * as allConsumers from "./pages/all_consumers.js";
import * as apiReference from "./pages/api_reference.js";
import * as channel from "./pages/channel.js";
import * as connection from "./pages/connection.js";
import * as connections from "./pages/connections.js";
import * as deadLetterGroup from "./pages/dead_letter_group.js";
import * as deadLetters from "./pages/dead_letters.js";
import * as exchange from "./pages/exchange.js";
import * as exchanges from "./pages/exchanges.js";
import * as guide from "./pages/guide.js";
import * as log from "./pages/log.js";
import { showLogin } from "./pages/login.js";
import * as messageTrace from "./pages/message_trace.js";
import * as nodes from "./pages/nodes.js";
import * as overview from "./pages/overview.js";
import * as pipeline from "./pages/pipeline.js";
import * as pipelines from "./pages/pipelines.js";
import * as queue from "./pages/queue.js";
import * as queues from "./pages/queues.js";
import * as schedules from "./pages/schedules.js";
import * as stream from "./pages/stream.js";
import * as streams from "./pages/streams.js";
import * as traces from "./pages/traces.js";
import * as vhostTopology from "./pages/vhost_topology.js";
import { hasSession, Shell } from "./shell.js";
import { completeLogin, providerResponse } from "./single_sign_on.js";

const PAGES = [
  overview,
  queues,
  queue,
  exchanges,
  exchange,
  vhostTopology,
  connections,
  connection,
  allChannels,
  channel,
  allConsumers,
  deadLetters,
  deadLetterGroup,
  traces.anywhere,
  traces,
  messageTrace,
  schedules,
  streams,
  stream,
  pipelines,
  pipeline,
  log,
  apiReference,
  guide.index,
  guide,
  nodes,
  ...ADMIN,
];

/** A login form would not help: the credentials that the proxy adds take precedence over a session. */
const REFUSED = {
  title: "Not logged in",
  reason: "The broker refuses the credentials that the proxy sends. Reload the page to log in at the proxy again.",
};

const app = /** @type {HTMLElement} */ (document.getElementById("app"));
/** @type {Shell | null} */
let shell = null;

function enter(user) {
  shell = new Shell(PAGES, actionsFor(user), user, leave);
  fill(app, shell.element);
  shell.start();
}

function leave(reason, problem) {
  if (!shell && app.hasChildNodes()) return; // several requests were refused
  const user = shell?.user;
  shell?.stop();
  shell = null;
  for (const open of document.querySelectorAll("dialog")) open.close(); // it would cover the login
  if (user && !hasSession(user)) fill(app, problemBox(REFUSED));
  else showLogin(app, enter, reason, problem);
}

onLoggedOut(() => leave(shell ? "Your session has expired. Log in again to continue." : undefined));

const response = providerResponse();
if (response) completeLogin(response).then(enter, (problem) => leave(undefined, problem));
else
  get("/api/login", undefined, { isLogin: true }).then(
    (user) => (user ? enter(user) : leave()),
    (problem) => fill(app, problemBox(problem)),
  );
