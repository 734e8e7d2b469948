// How connections and channels are told: by the name their client gave itself, their rates in bytes, since when.

import { h } from "../dom.js";
import { NONE, bytes, isNumber } from "../format.js";
import { link } from "../router.js";

/** What the client calls itself; else its library; else its address. */
export function clientOf(connection) {
  const { product, version } = connection.client_properties ?? {};
  const library = [product, version].filter((part) => typeof part === "string").join(" ");
  return connection.user_provided_name || library || connection.name;
}

export function peerOf(connection) {
  return connection.peer_host ? `${connection.peer_host}:${connection.peer_port}` : NONE;
}

/** Who is at the other end, by the name of a connection: that of the broker's end tells nobody anything. */
export function peerIn(name) {
  return name.split(" -> ")[0];
}

export function byteRate(value) {
  return isNumber(value) ? `${bytes(value)}/s` : NONE;
}

/** Day and time; the year where it is not this one. */
export function moment(milliseconds) {
  if (!isNumber(milliseconds)) return NONE;
  const then = new Date(milliseconds);
  const year = then.getFullYear() === new Date().getFullYear() ? undefined : "numeric";
  return then.toLocaleString([], { year, month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });
}

/** Anything but running deserves a look. */
export function stateBadge(state) {
  return h("span", { class: `badge ${state === "running" ? "" : "warn"}` }, state ?? NONE);
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
