// Selects the page by the URL fragment. A pattern is "/queues/:vhost/:name"; each part is encoded separately.

/**
 * @typedef {{ name: string, tags: string[], has_session?: boolean }} User
 *
 * A module of pages/: pages with `nav` are in the menu, other pages belong to the entry `under`.
 * @typedef {object} Page
 * @property {string} path
 * @property {string} [nav]
 * @property {(user: User) => boolean} [isFor] whether the menu and the search have it for this user
 * @property {string} [under]
 * @property {(parameters: any) => string} title
 * @property {(place: HTMLElement, parameters: any, signal: AbortSignal, user: User) => unknown} show
 * @property {(text: string, signal: AbortSignal) => Promise<import("./search.js").Found[]>} [find]
 */

export class Router {
  /** @type {{ page: Page, parts: string[] }[]} */
  #routes = [];
  #show;

  /**
   * `show(page, parameters)` is called whenever the fragment changes.
   * @param {Page[]} pages
   * @param {(page: Page | null, parameters: Record<string, string>) => void} show
   */
  constructor(pages, show) {
    this.#routes = pages.map((page) => ({ page, parts: page.path.split("/") }));
    this.#show = show;
  }

  start() {
    window.addEventListener("hashchange", this.follow);
    this.follow();
  }

  stop() {
    window.removeEventListener("hashchange", this.follow);
  }

  follow = () => {
    const parts = (location.hash.slice(1).split("?")[0] || "/").split("/");
    for (const { page, parts: pattern } of this.#routes) {
      const parameters = matched(pattern, parts);
      if (parameters) return this.#show(page, parameters);
    }
    return this.#show(null, {});
  };
}

/**
 * @param {string[]} pattern
 * @param {string[]} parts
 */
function matched(pattern, parts) {
  if (pattern.length !== parts.length) return null;
  /** @type {Record<string, string>} */
  const parameters = {};
  for (const [at, expected] of pattern.entries()) {
    if (!expected.startsWith(":")) {
      if (expected !== parts[at]) return null;
      continue;
    }
    try {
      parameters[expected.slice(1)] = decodeURIComponent(parts[at]);
    } catch {
      return null; // not a valid percent-encoding
    }
  }
  return parameters;
}

/**
 * link`/queues/${vhost}/${name}`
 * @param {TemplateStringsArray} texts
 * @param {...(string | number)} parts
 */
export function link(texts, ...parts) {
  return `#${texts.reduce((all, text, at) => all + encodeURIComponent(parts[at - 1]) + text)}`;
}

/** @param {string} address */
export function go(address) {
  location.hash = address;
}
