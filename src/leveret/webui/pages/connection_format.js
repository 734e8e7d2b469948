// Formats names, states and rates of connections and channels.

import { bytes, isNumber, NONE } from "../format.js";
import { badge } from "../layout.js";
import { link } from "../router.js";

/** The name that the client provides, or its library, or its address. */
export function clientOf(connection) {
  const { product, version } = connection.client_properties ?? {};
  const library = [product, version].filter((part) => typeof part === "string").join(" ");
  return connection.user_provided_name || library || connection.name;
}

export function peerOf(connection) {
  return connection.peer_host ? `${connection.peer_host}:${connection.peer_port}` : NONE;
}

/** The client's address in the name of a connection. */
export function peerIn(name) {
  return name.split(" -> ")[0];
}

export function byteRate(value) {
  return isNumber(value) ? `${bytes(value)}/s` : NONE;
}

/** Day and time, with the year if it is not the current one. */
export function moment(milliseconds) {
  if (!isNumber(milliseconds)) return NONE;
  const then = new Date(milliseconds);
  const year = then.getFullYear() === new Date().getFullYear() ? undefined : "numeric";
  return then.toLocaleString([], { year, month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });
}

/** Highlights any state other than running. */
export function stateBadge(state) {
  return badge(state ?? NONE, state === "running" ? "" : "warn");
}

export function connectionLink(name) {
  return link`/connections/${name}`;
}

export function channelLink(name) {
  return link`/channels/${name}`;
}

export function prefetch(count) {
  return count ? String(count) : "unlimited";
}
