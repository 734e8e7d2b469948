// Toasts: confirmations, errors, and actions that can still be undone.

import { fill, fillFor, h } from "./dom.js";

/** @typedef {import("./api.js").Problem} Problem */

const SHOWN = 6000;
const UNDO = 5000;

const all = /** @type {HTMLElement} */ (document.getElementById("notices"));
/** @type {HTMLDialogElement[]} */
const dialogs = []; // open dialogs, the topmost last

/**
 * Opens a modal dialog and moves the notices into it: everything outside is inert while it is open.
 * @param {HTMLDialogElement} dialog
 */
export function openDialog(dialog, whenClosed = () => {}) {
  dialog.showModal();
  dialogs.push(dialog);
  stand();
  const closed = () => {
    dialogs.splice(dialogs.indexOf(dialog), 1);
    stand();
    whenClosed();
  };
  dialog.addEventListener("close", closed, { once: true });
}

/** Moves the notices into the topmost dialog, above everything else. */
function stand() {
  const place = dialogs.findLast((one) => one.open) ?? document.body;
  if (all.parentElement !== place) place.append(all); // moving it closes the popover
  if (!all.matches(":popover-open")) all.showPopover();
}

/** @param {HTMLElement} notice */
function add(notice) {
  all.append(notice);
  stand();
}

/**
 * @param {string} kind
 * @param {import("./dom.js").Child[]} children
 * @param {number} [milliseconds]
 */
function place(kind, children, milliseconds) {
  const notice = h("div", { class: `notice ${kind}` }, children);
  const close = () => notice.remove();
  notice.append(h("button", { class: "close", type: "button", "aria-label": "Dismiss", onclick: close }, "×"));
  add(notice);
  if (milliseconds) setTimeout(close, milliseconds);
  return close;
}

/** @param {string} text */
export function notify(text) {
  return place("good", [h("p", {}, text)], SHOWN);
}

/**
 * Shows an error until it is dismissed.
 * @param {Problem} problem
 */
export function notifyError(problem) {
  if (problem.name === "AbortError") return;
  place("bad", [h("div", {}, h("strong", {}, problem.title ?? "Something went wrong"), h("p", {}, reasonOf(problem)))]);
}

/**
 * Calls `act` after a delay, unless the user presses Undo. Shows its error, then calls `done` in any case.
 * @param {string} text
 * @param {() => Promise<unknown>} act
 */
export function undoable(text, act, done = () => {}) {
  const bar = h("progress", { max: UNDO, value: UNDO, "aria-hidden": "true" });
  const count = h("span", { class: "count" });
  const end = performance.now() + UNDO;
  const left = () => Math.max(end - performance.now(), 0);
  const show = () => {
    bar.value = left();
    count.textContent = ` in ${Math.ceil(left() / 1000)}\u00a0s`;
  };
  const notice = h(
    "div",
    { class: "notice undo" },
    h("div", {}, h("p", {}, text, count), bar),
    h("button", { type: "button", class: "strong", onclick: () => settle(false) }, "Undo"),
  );
  const tick = setInterval(show, 250);
  const timer = setTimeout(() => settle(true), UNDO);

  /** @param {boolean} isWanted */
  function settle(isWanted) {
    clearInterval(tick);
    clearTimeout(timer);
    notice.remove();
    if (isWanted) act().catch(notifyError).then(done);
    else notify("Undone. Nothing was changed.");
  }

  show();
  add(notice);
}

/**
 * Shows the error of a page. If its object does not exist, hides the rest and links to the `list` at `address`.
 * @param {Element} place
 * @param {Problem} problem
 * @param {string} [list]
 * @param {string} [address]
 */
export function showTrouble(place, problem, list, address) {
  const isMissing = problem.status === 404;
  place.classList.toggle("alone", isMissing);
  fillFor(place, ["trouble", problem.title, reasonOf(problem)], () => [
    problemBox(problem),
    isMissing && h("p", {}, h("a", { class: "button", href: address }, list)),
  ]);
}

/** @param {Element} place */
export function endTrouble(place) {
  place.classList.remove("alone");
  fill(place);
}

/**
 * Shows an error that may persist over many polls; screen readers announce it once.
 * @param {Element} place
 * @param {Problem} problem
 */
export function showProblem(place, problem) {
  fillFor(place, ["problem", problem.title, reasonOf(problem)], () => problemBox(problem));
}

/**
 * An error box in place of content that could not be loaded.
 * @param {Problem} problem
 */
export function problemBox(problem) {
  return h(
    "div",
    { class: "problem", role: "alert" },
    h("strong", {}, problem.title ?? "Something went wrong"),
    h("p", {}, reasonOf(problem)),
  );
}

/** @param {Problem} problem */
function reasonOf(problem) {
  return problem.reason ?? String(problem);
}
