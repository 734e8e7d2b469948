// Creates DOM elements. Text is always inserted as text; no function accepts HTML.

const SVG = "http://www.w3.org/2000/svg";

/**
 * Text or an element; null, undefined and false are skipped.
 * @typedef {string | number | boolean | Node | null | undefined | Child[]} Child
 *
 * Attributes, the property `value`, and event listeners such as `onclick`.
 * @typedef {Record<string, any>} Properties
 */

/**
 * h("a", {class: "name", href: "#/", onclick: f}, "text", child, [more])
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Properties} properties
 * @param {...Child} children
 */
export function h(tag, properties = {}, ...children) {
  return initialize(document.createElement(tag), properties, children);
}

/**
 * The same for SVG elements.
 * @template {keyof SVGElementTagNameMap} T
 * @param {T} tag
 * @param {Properties} properties
 * @param {...Child} children
 */
export function s(tag, properties = {}, ...children) {
  return initialize(document.createElementNS(SVG, tag), properties, children);
}

/**
 * @template {Element} E
 * @param {E} element
 * @param {Properties} properties
 * @param {Child[]} children
 */
function initialize(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") Object.assign(element, { value });
    else if (name === "href") element.setAttribute("href", ownLink(value));
    else element.setAttribute(name, value === true ? "" : value);
  }
  append(element, children);
  return element;
}

/**
 * Links stay within the UI: a user-chosen name must not become a `javascript:` URL.
 * @param {string} address
 */
function ownLink(address) {
  return address.startsWith("#") || address.startsWith("/") ? address : "#/";
}

/**
 * @param {Element} element
 * @param {Child[]} children
 */
function append(element, children) {
  for (const child of children) {
    if (child === undefined || child === null || child === false) continue;
    if (Array.isArray(child)) append(element, child);
    else element.append(child instanceof Node ? child : String(child));
  }
}

const shownFor = new WeakMap(); // element -> JSON of the value it was last filled for

/**
 * Replaces all children.
 * @param {Element} element
 * @param {...Child} children
 */
export function fill(element, ...children) {
  shownFor.delete(element);
  element.replaceChildren();
  append(element, children);
  return element;
}

/**
 * Fills the element with `build()` if `value` has changed; otherwise focus and selection are kept.
 * @param {Element} element
 * @param {unknown} value
 * @param {() => Child} build
 */
export function fillFor(element, value, build) {
  const key = JSON.stringify([value]);
  if (shownFor.get(element) === key) return;
  fill(element, build());
  shownFor.set(element, key);
}

/**
 * Changes the text only if it differs, so that a selection survives a refresh.
 * @param {Node} element
 * @param {unknown} text
 */
export function setText(element, text) {
  const shown = String(text);
  if (element.textContent !== shown) element.textContent = shown;
}
