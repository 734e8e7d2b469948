// Calls the HTTP API of the broker. Every failure is an ApiError with a title and a reason.

/**
 * @typedef {Record<string, string | number | boolean | null | undefined>} Query
 * @typedef {{ signal?: AbortSignal, isLogin?: boolean, headers?: Record<string, string> }} Options
 *
 * An error to show: an ApiError, an input error of a form, or any other error.
 * @typedef {{ title?: string, reason?: string, status?: number, name?: string }} Problem
 */

export class ApiError extends Error {
  /**
   * @param {number} status 0 if there was no response
   * @param {string} title
   * @param {string} reason
   */
  constructor(status, title, reason) {
    super(reason);
    this.status = status;
    this.title = title;
    this.reason = reason;
  }
}

/** The folder of the UI, as the browser sees it: a proxy may serve the broker below a path. */
export const ROOT = new URL(".", document.baseURI).pathname;
/** Header of login and logout: the broker sets its cookie for this folder only. */
export const COOKIE_PATH = { "X-Leveret-Path": ROOT };

/** @type {Record<number, string>} */
const TITLES = {
  0: "No response from the broker",
  400: "Invalid request",
  401: "Not logged in",
  403: "Not allowed",
  404: "Not found",
  409: "Conflict",
  413: "Too large",
  500: "Internal error in the broker",
  503: "Temporarily unavailable",
};

let whenLoggedOut = () => {};
/** @type {(nodes: string[], missing: string[]) => void} */
let whenNodesAnswer = () => {};
/** @type {(problem: ApiError | null) => void} */
let whenHealthChanges = () => {};

/**
 * `call()` is called when the session has expired.
 * @param {() => void} call
 */
export function onLoggedOut(call) {
  whenLoggedOut = call;
}

/**
 * `call(error)` is called after each request; the error is null if the broker responded.
 * @param {(problem: ApiError | null) => void} call
 */
export function onHealth(call) {
  whenHealthChanges = call;
}

/**
 * `call(nodes, missing)` is called after each response that several nodes have contributed to.
 * @param {(nodes: string[], missing: string[]) => void} call
 */
export function onNodes(call) {
  whenNodesAnswer = call;
}

/** @type {(path: string, query?: Query, options?: Options) => Promise<any>} */
export const get = (path, query, options) => call("GET", path, query, undefined, options);
/** @type {(path: string, body?: unknown, options?: Options) => Promise<any>} */
export const post = (path, body, options) => call("POST", path, undefined, body ?? {}, options);
/** @type {(path: string, body?: unknown, options?: Options) => Promise<any>} */
export const put = (path, body, options) => call("PUT", path, undefined, body ?? {}, options);
/** @type {(path: string, options?: Options) => Promise<any>} */
export const remove = (path, options) => call("DELETE", path, undefined, undefined, options);

/**
 * The bytes of a response that is not JSON.
 * @param {string} address
 * @param {Options} [options]
 */
export async function getBytes(address, { signal } = {}) {
  const response = await fetch(located(address), { signal, credentials: "same-origin", cache: "no-store" });
  if (response.ok) return new Uint8Array(await response.arrayBuffer());
  const title = TITLES[response.status] ?? `Status ${response.status}`;
  throw new ApiError(response.status, title, String(readable(await response.text())?.reason ?? title));
}

/**
 * path`/api/queues/${vhost}/${name}` with each part encoded.
 * @param {TemplateStringsArray} texts
 * @param {...(string | number)} parts
 */
export function path(texts, ...parts) {
  return texts.reduce((all, text, at) => all + encodeURIComponent(parts[at - 1]) + text);
}

/**
 * @param {string} method
 * @param {string} address
 * @param {Query | undefined} query
 * @param {unknown} body
 * @param {Options} [options]
 */
async function call(method, address, query, body, { signal, isLogin = false, headers = {} } = {}) {
  const { response, text } = await sent(method, located(address, query), body, signal, headers);
  const answer = readable(text);
  if (response.ok) return answer;
  if (response.status === 401 && !isLogin) whenLoggedOut();
  const title = isLogin ? "Login failed" : (TITLES[response.status] ?? `Status ${response.status}`);
  const reason =
    answer?.reason ?? `${method} ${address} returned status ${response.status}. See the broker's log for details.`;
  throw new ApiError(response.status, title, String(reason));
}

/**
 * @param {string} method
 * @param {string} address
 * @param {unknown} body
 * @param {AbortSignal | undefined} signal
 * @param {Record<string, string>} further
 */
async function sent(method, address, body, signal, further) {
  /** @type {Record<string, string>} */
  const headers = { "X-Requested-With": "leveret", Accept: "application/json", ...further };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  try {
    const response = await fetch(address, {
      method,
      headers,
      signal,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
      cache: "no-store",
    });
    const text = await response.text(); // may be interrupted
    whenHealthChanges(null);
    noteNodes(response.headers);
    return { response, text };
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    const silence = new ApiError(
      0,
      TITLES[0],
      "The broker may be stopped, restarting or unreachable. Retrying automatically.",
    );
    whenHealthChanges(silence);
    throw silence;
  }
}

/** @param {Headers} headers */
function noteNodes(headers) {
  const names = (/** @type {string} */ name) =>
    (headers.get(name) || "").split(",").filter(Boolean).map(decodeURIComponent);
  const nodes = names("X-Leveret-Nodes");
  if (nodes.length) whenNodesAnswer(nodes, names("X-Leveret-Missing-Nodes"));
}

/** @param {string} text */
function readable(text) {
  if (!text) return null;
  try {
    return JSON.parse(text);
  } catch {
    return null; // not from the broker but from a proxy
  }
}

/**
 * An address of the API, "/api/...", below ROOT.
 * Empty strings are sent: they can name the default exchange, or be an empty routing key.
 * @param {string} address
 * @param {Query} [query]
 */
function located(address, query) {
  const given = Object.entries(query ?? {}).flatMap(([name, value]) => (value == null ? [] : [[name, String(value)]]));
  const below = ROOT + address.slice(1);
  return given.length ? `${below}?${new URLSearchParams(given)}` : below;
}
