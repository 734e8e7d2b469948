// Formats names, states and rates of connections and channels.

import { h } from "../dom.js";
import { isNumber, NONE } from "../format.js";
import { badge, nameText } from "../layout.js";
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

/** Day and time, with the year if it is not the current one. */
export function moment(milliseconds, second) {
  if (!isNumber(milliseconds)) return NONE;
  const then = new Date(milliseconds);
  const year = then.getFullYear() === new Date().getFullYear() ? undefined : "numeric";
  return then.toLocaleString([], { year, month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second });
}

export const momentWithSeconds = (milliseconds) => moment(milliseconds, "2-digit");

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

/** The connection of a row with channel_details, by the name that its client has given it. */
export const CONNECTION = {
  title: "Connection",
  sort: "channel_details.connection_name",
  width: "name",
  value: ({ channel_details: details }) => [details?.connection_name ?? "", details?.user_provided_name ?? ""],
  show: ([name, provided]) =>
    name
      ? h("a", { href: connectionLink(name), title: name }, nameText(provided || peerIn(name)))
      : "in-process client",
};

/** The channel of a row with channel_details. */
export const CHANNEL = {
  title: "Channel",
  sort: "channel_details.name",
  align: "right",
  width: "xs",
  value: ({ channel_details: details }) => [details?.connection_name && details.name, details?.number],
  show: ([name, number]) => (name ? h("a", { href: channelLink(name), title: name }, String(number)) : NONE),
};

export function prefetch(count) {
  return count ? String(count) : "unlimited";
}
