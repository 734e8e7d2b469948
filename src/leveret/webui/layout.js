// Headings, sections and buttons of pages.

import { h } from "./dom.js";

/** @typedef {import("./dom.js").Child} Child */

/**
 * The heading of a list or an overview.
 * @param {string} title
 * @param {Child} [about] a description
 * @param {...Child} buttons
 */
export function pageHead(title, about = null, ...buttons) {
  return head(h("h1", {}, title), about, buttons);
}

/**
 * A name as text; spaces at its ends, which are easily overlooked, are marked.
 * @param {string} name
 * @returns {Child}
 */
export function nameText(name) {
  const [, before, inside, behind] = /^(\s*)(.*?)(\s*)$/s.exec(name) ?? ["", "", name, ""];
  if (!before && !behind) return name;
  const space = (/** @type {string} */ text) => text && h("span", { class: "edge-space" }, text);
  return [space(before), inside, space(behind)];
}

/**
 * A link with the name of an object.
 * @param {string} href
 * @param {string} name
 */
export function nameLink(href, name) {
  return h("a", { href, title: name }, nameText(name));
}

/**
 * The heading of an object.
 * @param {Child} name
 * @param {Child} about
 * @param {...Child} buttons
 */
export function objectHead(name, about, ...buttons) {
  return head(h("h1", { class: "object" }, typeof name === "string" ? nameText(name) : name), about, buttons);
}

/**
 * @param {HTMLElement} title
 * @param {Child} about
 * @param {Child[]} buttons
 */
function head(title, about, buttons) {
  return h(
    "header",
    { class: "page-head" },
    h("div", { class: "head-text" }, title, about && h("p", { class: "faint" }, about)),
    buttons.length > 0 && h("div", { class: "buttons" }, buttons),
  );
}

/**
 * @param {string} name
 * @param {Child} content
 * @param {...Child} buttons
 */
export function section(name, content, ...buttons) {
  const title = h("h2", {}, name);
  const head = h("header", { class: "section-head" }, title, h("div", { class: "buttons" }, buttons));
  return h("section", {}, buttons.length ? head : title, content);
}

/**
 * @param {string} text
 * @param {() => void} onclick
 * @param {string} kind classes
 */
export function button(text, onclick, kind = "") {
  return h("button", { type: "button", class: kind, onclick }, text);
}

/**
 * @param {Child} text
 * @param {string} kind "warn" highlights it
 * @param {string} [title]
 */
export function badge(text, kind = "", title) {
  return h("span", { class: `badge ${kind}`, title }, text);
}

/**
 * The card of an empty page: what is missing, and what to do next.
 * @param {string} title
 * @param {...Child} content
 */
export function emptyCard(title, ...content) {
  return h("div", { class: "card first" }, h("h2", {}, title), content);
}

/** Whether the broker has several nodes (shell.js). */
export function hasSeveralNodes() {
  return document.documentElement.classList.contains("several-nodes");
}
