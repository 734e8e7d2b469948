// A sparkline of recent publish and deliver rates on one scale.

import { h, s } from "./dom.js";

/** @typedef {import("./chart.js").Point} Point */

const WIDTH = 100;
const HEIGHT = 24;

/**
 * `incoming` and `outgoing` are points as returned by `pointsOf`.
 * @param {Point[]} incoming
 * @param {Point[]} outgoing
 * @param {string} label
 */
export function rateSparkline(incoming, outgoing, label) {
  const longest = Math.max(incoming.length, outgoing.length);
  if (longest < 2) return h("span", { class: "faint" }, "–");
  const top = [...incoming, ...outgoing].reduce((highest, [, value]) => Math.max(highest, value ?? 0), 1);
  return s(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "spark rates", role: "img", "aria-label": label },
    line(outgoing, top, 1),
    line(incoming, top, 0),
  );
}

/**
 * @param {Point[]} points
 * @param {number} top
 * @param {number} number
 */
function line(points, top, number) {
  if (points.length < 2) return null;
  const step = (WIDTH - 4) / (points.length - 1);
  const place = (/** @type {Point} */ [, value], /** @type {number} */ at) =>
    `${at ? "L" : "M"}${(2 + at * step).toFixed(1)} ${(HEIGHT - 2 - ((value ?? 0) / top) * (HEIGHT - 5)).toFixed(1)}`;
  return s("path", { class: `line line-${number}`, d: points.map(place).join("") });
}
