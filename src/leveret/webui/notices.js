// Short messages at the edge of the page: what was done, what went wrong, what can still be undone.

import { fill, fillFor, h } from "./dom.js";

const SHOWN = 6000;
const UNDO = 5000;

const all = document.getElementById("notices");
const dialogues = []; // that are open, the topmost at the end

/** Opens a dialogue, and takes the notices along: while it is open, nothing outside of it can be pressed. */
export function openDialogue(dialogue, whenClosed = () => {}) {
  dialogue.showModal();
  dialogues.push(dialogue);
  stand();
  const closed = () => {
    dialogues.splice(dialogues.indexOf(dialogue), 1);
    stand();
    whenClosed();
  };
  dialogue.addEventListener("close", closed, { once: true });
}

/** In the topmost dialogue, and above all that was opened before. */
function stand() {
  const place = dialogues.findLast((one) => one.open) ?? document.body;
  if (all.parentElement !== place) place.append(all); // which closes it
  if (!all.matches(":popover-open")) all.showPopover();
}

function add(notice) {
  all.append(notice);
  stand();
}

function place(kind, children, seconds) {
  const notice = h("div", { class: `notice ${kind}` }, children);
  const close = () => notice.remove();
  notice.append(h("button", { class: "close", type: "button", "aria-label": "Dismiss", onclick: close }, "×"));
  add(notice);
  if (seconds) setTimeout(close, seconds);
  return close;
}

export function tell(text) {
  return place("good", [h("p", {}, text)], SHOWN);
}

/** An error stays until it is dismissed. */
export function tellError(problem) {
  if (problem.name === "AbortError") return;
  place("bad", [h("div", {}, h("strong", {}, problem.title ?? "Something went wrong"), h("p", {}, reasonOf(problem)))]);
}

/** Waits before it acts; until then nothing has been sent, and a click takes it back. */
export function undoable(text, act) {
  const bar = h("progress", { max: UNDO, value: UNDO, "aria-hidden": "true" });
  const count = h("span", { class: "count" });
  const end = performance.now() + UNDO;
  const left = () => Math.max(end - performance.now(), 0);
  const show = () => {
    bar.value = left();
    count.textContent = ` in ${Math.ceil(left() / 1000)} s`;
  };
  const notice = h(
    "div",
    { class: "notice undo" },
    h("div", {}, h("p", {}, text, count), bar),
    h("button", { type: "button", class: "strong", onclick: () => settle(false) }, "Undo"),
  );
  const tick = setInterval(show, 250);
  const timer = setTimeout(() => settle(true), UNDO);

  function settle(isWanted) {
    clearInterval(tick);
    clearTimeout(timer);
    notice.remove();
    if (isWanted) act();
    else tell("Undone. Nothing was changed.");
  }

  show();
  add(notice);
}

/** The trouble of a page. What is not there leaves nothing to show below, but the way to the `list` at `address`. */
export function showTrouble(place, problem, list, address) {
  const isMissing = problem.status === 404;
  place.classList.toggle("alone", isMissing);
  fillFor(place, ["trouble", problem.title, reasonOf(problem)], () => [
    problemBox(problem),
    isMissing && h("p", {}, h("a", { class: "button", href: address }, list)),
  ]);
}

export function endTrouble(place) {
  place.classList.remove("alone");
  fill(place);
}

/** Tells of a problem that may be there for a while: it is read out once. */
export function showProblem(place, problem) {
  fillFor(place, ["problem", problem.title, reasonOf(problem)], () => problemBox(problem));
}

/** What to show in the place of something that could not be loaded. */
export function problemBox(problem) {
  return h(
    "div",
    { class: "problem", role: "alert" },
    h("strong", {}, problem.title ?? "Something went wrong"),
    h("p", {}, reasonOf(problem)),
  );
}

function reasonOf(problem) {
  return problem.reason ?? String(problem);
}
