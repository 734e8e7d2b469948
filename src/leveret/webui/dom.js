// Elements. The one way text gets into the page is as text: nothing here takes HTML.

const SVG = "http://www.w3.org/2000/svg";

/** h("a", {class: "name", href: "#/", onclick: f}, "text", child, [more]) */
export function h(tag, properties = {}, ...children) {
  return equipped(document.createElement(tag), properties, children);
}

/** The same for SVG. */
export function s(tag, properties = {}, ...children) {
  return equipped(document.createElementNS(SVG, tag), properties, children);
}

function equipped(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else if (name === "href") element.setAttribute("href", ownLink(value));
    else element.setAttribute(name, value === true ? "" : value);
  }
  append(element, children);
  return element;
}

/** A name that somebody chose must not become a `javascript:` address: links stay within the page. */
function ownLink(address) {
  return address.startsWith("#") || address.startsWith("/") ? address : "#/";
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

const shownFor = new WeakMap(); // what elements were filled for

/** Puts these children in the place of all there are. */
export function fill(element, ...children) {
  shownFor.delete(element);
  element.replaceChildren();
  append(element, children);
  return element;
}

/** Fills an element with `build()` only where it was filled for another `value`: focus and selection survive a refresh. */
export function fillFor(element, value, build) {
  const key = JSON.stringify([value]);
  if (shownFor.get(element) === key) return;
  fill(element, build());
  shownFor.set(element, key);
}

/** Changes text only where it differs, so that a selection survives a refresh. */
export function setText(element, text) {
  const shown = String(text);
  if (element.textContent !== shown) element.textContent = shown;
}
