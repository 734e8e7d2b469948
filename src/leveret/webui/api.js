// Calls of the broker. Whatever goes wrong is one kind of error, with what it was about, the cause and the remedy.

export class ApiError extends Error {
  constructor(status, title, reason) {
    super(reason);
    this.status = status;
    this.title = title;
    this.reason = reason;
  }
}

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
let whenHealthChanges = () => {};

/** Called when a session has ended. */
export function onLoggedOut(call) {
  whenLoggedOut = call;
}

/** Told null when the broker answers, else the error. */
export function onHealth(call) {
  whenHealthChanges = call;
}

export const get = (path, query, options) => call("GET", path, query, undefined, options);
export const post = (path, body, options) => call("POST", path, undefined, body ?? {}, options);
export const put = (path, body, options) => call("PUT", path, undefined, body ?? {}, options);
export const remove = (path, options) => call("DELETE", path, undefined, undefined, options);

/** path`/api/queues/${vhost}/${name}` with each part encoded. */
export function path(texts, ...parts) {
  return texts.reduce((all, text, at) => all + encodeURIComponent(parts[at - 1]) + text);
}

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

async function sent(method, address, body, signal, further) {
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
    const text = await response.text(); // may be cut off in the middle
    whenHealthChanges(null);
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

function readable(text) {
  if (!text) return null;
  try {
    return JSON.parse(text);
  } catch {
    return null; // from something between us and the broker
  }
}

/** An empty text is something to ask for as well: the name of the default exchange, or no routing key. */
function located(address, query) {
  const given = Object.entries(query ?? {}).filter(([, value]) => value !== undefined && value !== null);
  return given.length ? `${address}?${new URLSearchParams(given)}` : address;
}
