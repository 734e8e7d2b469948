// Filter and sort order of a list, kept in the URL after "?": they survive Back and reload, and can be shared.

function state() {
  return new URLSearchParams(location.hash.split("?")[1] ?? "");
}

/**
 * The value of this name, or null.
 * @param {string} name
 */
export function keptState(name) {
  return state().get(name);
}

/**
 * Sets these values in the URL and removes empty ones, without a new history entry.
 * @param {Record<string, string>} values
 */
export function keepState(values) {
  const kept = state();
  for (const [name, value] of Object.entries(values)) {
    if (value) kept.set(name, value);
    else kept.delete(name);
  }
  const text = kept.toString();
  history.replaceState(null, "", `${location.hash.split("?")[0] || "#/"}${text ? `?${text}` : ""}`);
}
