// A link to another site, such as Spark's UI. Its address comes from a client of the broker.

import { h } from "./dom.js";

/**
 * Null unless the address is http or https: a `javascript:` URL must not become a link.
 * @param {unknown} address
 * @param {string} text
 */
export function externalLink(address, text) {
  const url = typeof address === "string" && URL.canParse(address) ? new URL(address) : null;
  if (!url || !["http:", "https:"].includes(url.protocol)) return null;
  const element = h("a", { class: "button", rel: "noopener noreferrer", target: "_blank", title: url.href }, text);
  element.href = url.href;
  return element;
}
