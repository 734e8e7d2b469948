// Markdown as elements: the part of it that the guide uses. Text stays text; a link leads within the UI, or is http(s).

import { h } from "./dom.js";

/** @typedef {import("./dom.js").Child} Child */

/**
 * What a link leads to: an address of the UI, "http(s)://...", or null for text only.
 * @typedef {(target: string) => string | null} Resolve
 */

const FENCE = /^```/;
const HEADING = /^(#{1,6}) (.*)$/;
const ITEM = /^([-*]|\d+\.) +/;
const RULE = /^\|[-| :]*-[-| :]*\|$/;
const INLINE = new RegExp(
  [
    "(?<ticks>`+)(?<code>.+?)\\k<ticks>",
    "(?<image>!)\\[[^\\]]*\\]\\([^)]*\\)",
    "\\[(?<label>(?:`[^`]*`|[^\\[\\]])+)\\]\\((?<target>[^)\\s]+)\\)",
    "\\*\\*(?<strong>.+?)\\*\\*",
    "\\*(?<em>[^*\\s](?:[^*]*[^*\\s])?)\\*",
    "<(?<url>https?:[^>]+)>",
  ].join("|"),
  "gs",
);

/**
 * @param {string} text
 * @param {Resolve} resolve
 */
export function markdown(text, resolve) {
  return new Document(resolve).blocks(text.replace(/<!--.*?-->/gs, "").split("\n"));
}

/** The name of a heading in links, as GitHub makes it. */
export function slug(/** @type {string} */ heading) {
  const plain = heading.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").toLowerCase();
  return plain.replace(/[^\p{L}\p{N}_\- ]/gu, "").replaceAll(" ", "-");
}

class Document {
  /** @param {Resolve} resolve */
  constructor(resolve) {
    this.resolve = resolve;
  }

  /**
   * @param {string[]} lines
   * @returns {Child[]}
   */
  blocks(lines) {
    const found = [];
    for (let at = 0; at < lines.length; ) {
      const [block, next] = this.#block(lines, at);
      found.push(block);
      at = next;
    }
    return found;
  }

  /**
   * The block that begins with a line, and the number of the line behind it.
   * @param {string[]} lines
   * @param {number} at
   * @returns {[Child, number]}
   */
  #block(lines, at) {
    const line = lines[at];
    if (!line.trim()) return [null, at + 1];
    if (FENCE.test(line)) return code(lines, at);
    const heading = HEADING.exec(line);
    if (heading) return [this.#heading(heading[1].length, heading[2]), at + 1];
    if (line.startsWith("|") && RULE.test(lines[at + 1] ?? "")) return this.#table(lines, at);
    if (ITEM.test(line)) return this.#list(lines, at);
    const end = endOf(lines, at + 1, (each) => !each.trim() || startsBlock(each));
    return [h("p", {}, this.inline(lines.slice(at, end).join("\n"))), end];
  }

  /**
   * @param {number} level
   * @param {string} text
   */
  #heading(level, text) {
    const tag = /** @type {"h1" | "h2" | "h3" | "h4"} */ (`h${Math.min(level, 4)}`);
    return h(tag, { id: slug(text), tabindex: "-1" }, this.inline(text));
  }

  /**
   * @param {string[]} lines
   * @param {number} at
   * @returns {[Child, number]}
   */
  #table(lines, at) {
    const end = endOf(lines, at, (each) => !each.startsWith("|"));
    const [heads, , ...rows] = lines.slice(at, end).map(cells);
    const head = heads.some(Boolean) && h("thead", {}, h("tr", {}, this.#cells("th", heads)));
    const body = rows.map((row) => h("tr", {}, this.#cells("td", row)));
    return [h("table", {}, head, h("tbody", {}, body)), end];
  }

  /**
   * @param {"th" | "td"} tag
   * @param {string[]} texts
   */
  #cells(tag, texts) {
    return texts.map((text) => (text || tag === "td" ? h(tag, {}, this.inline(text)) : h("td", {})));
  }

  /**
   * @param {string[]} lines
   * @param {number} at
   * @returns {[Child, number]}
   */
  #list(lines, at) {
    const isOrdered = /^\d/.test(lines[at]);
    const items = [];
    while (at < lines.length && ITEM.test(lines[at]) && /^\d/.test(lines[at]) === isOrdered) {
      const [item, end] = itemOf(lines, at);
      items.push(h("li", {}, this.#item(item)));
      at = end;
    }
    return [h(isOrdered ? "ol" : "ul", {}, items), at];
  }

  /** @param {string[]} lines */
  #item(lines) {
    const end = endOf(lines, 1, (each) => !each.trim() || startsBlock(each));
    return [this.inline(lines.slice(0, end).join("\n")), this.blocks(lines.slice(end))];
  }

  /**
   * @param {string} text
   * @returns {Child[]}
   */
  inline(text) {
    const found = [];
    let from = 0;
    for (const match of text.matchAll(INLINE)) {
      found.push(text.slice(from, match.index), this.#span(match.groups ?? {}));
      from = match.index + match[0].length;
    }
    return [...found, text.slice(from)];
  }

  /**
   * @param {Record<string, string | undefined>} span
   * @returns {Child}
   */
  #span({ code: quoted, image, label, target = "", strong, em, url }) {
    if (quoted !== undefined) return h("code", {}, quoted);
    if (image) return null; // pictures are not part of the package
    if (strong !== undefined) return h("strong", {}, this.inline(strong));
    if (em !== undefined) return h("em", {}, this.inline(em));
    const address = url ?? this.resolve(target);
    const content = this.inline(label ?? url ?? "");
    if (address === null) return content;
    if (address.startsWith("#")) return h("a", { href: address }, content);
    const link = h("a", { rel: "noopener noreferrer", target: "_blank" }, content);
    if (/^https?:/.test(address)) link.href = address;
    return link;
  }
}

/**
 * @param {string[]} lines
 * @param {number} at
 * @returns {[Child, number]}
 */
function code(lines, at) {
  const end = endOf(lines, at + 1, (each) => FENCE.test(each));
  return [h("pre", {}, h("code", {}, lines.slice(at + 1, end).join("\n"))), end + 1];
}

/** @param {string} row */
function cells(row) {
  const inside = row.trim().replace(/^\||\|$/g, "");
  return inside.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

/**
 * The lines of an item without its indentation, and the number of the line behind it.
 * @param {string[]} lines
 * @param {number} at
 * @returns {[string[], number]}
 */
function itemOf(lines, at) {
  const width = (ITEM.exec(lines[at]) ?? [""])[0].length;
  const indent = " ".repeat(width);
  let end = at + 1;
  while (end < lines.length && (lines[end].startsWith(indent) || (!lines[end].trim() && belongs(lines, end, indent))))
    end++;
  return [[lines[at].slice(width), ...lines.slice(at + 1, end).map((line) => line.slice(width))], end];
}

/**
 * Whether an empty line is within an item, because more of it follows.
 * @param {string[]} lines
 * @param {number} at
 * @param {string} indent
 */
function belongs(lines, at, indent) {
  const next = lines[endOf(lines, at, (line) => Boolean(line.trim()))];
  return next?.startsWith(indent) ?? false;
}

/** @param {string} line */
function startsBlock(line) {
  return FENCE.test(line) || HEADING.test(line) || ITEM.test(line) || line.startsWith("|");
}

/**
 * The first line from `at` on for which `ends` is true.
 * @param {string[]} lines
 * @param {number} at
 * @param {(line: string) => boolean} ends
 */
function endOf(lines, at, ends) {
  while (at < lines.length && !ends(lines[at])) at++;
  return at;
}
