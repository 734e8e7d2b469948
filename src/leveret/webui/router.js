// Selects the page by the URL fragment. A pattern is "/queues/:vhost/:name"; each part is encoded separately.

export class Router {
  #routes = [];
  #show;

  /** `show(page, parameters)` is called whenever the fragment changes. */
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

function matched(pattern, parts) {
  if (pattern.length !== parts.length) return null;
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

/** link`/queues/${vhost}/${name}` */
export function link(texts, ...parts) {
  return `#${texts.reduce((all, text, at) => all + encodeURIComponent(parts[at - 1]) + text)}`;
}

export function go(address) {
  location.hash = address;
}
