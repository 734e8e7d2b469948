// The start: who is there, then the page, or the login.

import { get, onLoggedOut } from "./api.js";
import { fill } from "./dom.js";
import { problemBox } from "./notices.js";
import { showLogin } from "./pages/login.js";
import * as overview from "./pages/overview.js";
import * as queue from "./pages/queue.js";
import * as queues from "./pages/queues.js";
import { Shell } from "./shell.js";

const PAGES = [overview, queues, queue];

const app = document.getElementById("app");
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
  showLogin(app, enter, reason);
}

onLoggedOut(() => leave(shell ? "Your session has ended. Log in to go on where you were." : undefined));

get("/api/login").then((user) => (user ? enter(user) : leave()), (problem) => fill(app, problemBox(problem)));
