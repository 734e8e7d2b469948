// How a list is looked at, kept in the address after "?": so Back, a reload and a link that is sent on show the same.

function state() {
  return new URLSearchParams(location.hash.split("?")[1] ?? "");
}

/** What stands there under this name, or null. */
export function keptState(name) {
  return state().get(name);
}

/** Writes these values down; an empty one is left out. The address is not left: Back leads to where it led before. */
export function keepState(values) {
  const kept = state();
  for (const [name, value] of Object.entries(values)) {
    if (value) kept.set(name, value);
    else kept.delete(name);
  }
  const text = kept.toString();
  history.replaceState(null, "", `${location.hash.split("?")[0] || "#/"}${text ? `?${text}` : ""}`);
}
