// Line charts and sparklines as SVG.

import { fill, h, s } from "./dom.js";
import { clockTime, short } from "./format.js";

const USUAL = 640; // width in pixels until it can be measured
const HEIGHT = 180;
const LEFT = 44; // minimum; long axis labels need more
const DIGITS = 9; // by which a scale may grow
const LETTER = 6.4; // width of a character of a label
const BOTTOM = 20;
const TOP = 8;
const LONG = 1_800_000; // time span in milliseconds from which axis labels omit seconds

/**
 * `now` is a value newer than the last point, if known. Points are [milliseconds, value], the oldest first; a value of
 * null is a gap.
 * @typedef {[number, number | null]} Point
 * @typedef {{ label: string, points: Point[], now?: number }} Series
 * @typedef {(value: number | null | undefined) => string} Format
 */

/**
 * A chart that can be redrawn.
 * @param {string} title
 */
export function lineChart(title) {
  const legend = h("div", { class: "legend" });
  const drawing = s("svg", { class: "chart", role: "img", "aria-label": title });
  const element = h("figure", { class: "card chart-card" }, h("figcaption", {}, h("h2", {}, title), legend), drawing);
  /** @type {{ series: Series[], show: Format, seconds: number, scale: ReturnType<typeof scaleOf> } | null} */
  let drawn = null;
  /** @type {number | null} */
  let pointed = null; // x coordinate of the pointer in the window

  /**
   * @param {Series[]} series
   * @param {Format} show
   * @param {number} seconds the time range, even if there are no points for all of it
   */
  function draw(series, show = short, seconds = 0) {
    const width = drawing.clientWidth || USUAL;
    const scale = scaleOf(series, width, show, seconds);
    drawn = { series, show, seconds, scale };
    drawing.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    fill(
      legend,
      series.map((one, at) => legendItem(one, at, show, one.now ?? one.points.at(-1)?.[1])),
    );
    fill(
      drawing,
      axes(scale, show),
      series.map((one, at) => curve(one, at, scale)).reverse(),
      s("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" }),
    );
    if (!series.some((one) => one.points.length > 1)) {
      drawing.append(
        s(
          "text",
          { x: (width + LEFT) / 2, y: HEIGHT / 2 - 14, class: "hint", "text-anchor": "middle" },
          "Collecting data …",
        ),
      );
    }
    if (pointed !== null) point(); // keep the values at the pointer
  }

  function point() {
    if (!drawn?.scale || pointed === null) return;
    const { series, show, scale } = drawn;
    const x = pointed - drawing.getBoundingClientRect().left;
    const time = scale.timeAt(x);
    const cursor = drawing.querySelector(".cursor");
    cursor?.setAttribute("x1", String(x));
    cursor?.setAttribute("x2", String(x));
    cursor?.setAttribute("visibility", x < scale.left ? "hidden" : "visible");
    fill(
      legend,
      series.map((one, at) => legendItem(one, at, show, one.points[nearest(one.points, time)]?.[1])),
      h("span", { class: "at" }, clockTime(time)),
    );
  }

  new ResizeObserver(() => drawn && draw(drawn.series, drawn.show, drawn.seconds)).observe(drawing);
  drawing.addEventListener("pointermove", (event) => {
    pointed = event.clientX;
    point();
  });
  drawing.addEventListener("pointerleave", () => {
    pointed = null;
    if (drawn) draw(drawn.series, drawn.show, drawn.seconds);
  });
  return { element, draw };
}

/**
 * @param {Series} series
 * @param {number} at
 * @param {Format} show
 * @param {number | null | undefined} value
 */
function legendItem(series, at, show, value) {
  return h("span", { class: `key line-${at}` }, h("i", {}), `${series.label} `, h("b", {}, show(value)));
}

/**
 * @param {Point[]} points
 * @param {number} time
 */
function nearest(points, time) {
  let best = -1;
  let distance = Infinity;
  for (const [index, [moment]] of points.entries()) {
    if (Math.abs(moment - time) < distance) {
      distance = Math.abs(moment - time);
      best = index;
    }
  }
  return best;
}

/**
 * @param {Series[]} series
 * @param {number} width
 * @param {Format} show
 * @param {number} seconds
 */
function scaleOf(series, width, show, seconds) {
  const times = series.flatMap((one) => one.points.map(([time]) => time));
  if (times.length < 2) return null;
  const last = times.reduce((a, b) => Math.max(a, b));
  const oldest = times.reduce((a, b) => Math.min(a, b));
  const first = Math.min(seconds ? last - seconds * 1000 : oldest, last - 1);
  const values = series.flatMap((one) => one.points.map(([, value]) => value ?? 0));
  let top = roundUp(
    values.reduce((a, b) => Math.max(a, b), 0),
    values.every(Number.isInteger),
  );
  for (let times = 0; times < DIGITS && show(top / 2) === show(0); times += 1) top *= 10; // labels that differ
  const left = Math.max(LEFT, ...[top, top / 2].map((value) => show(value).length * LETTER + 12));
  return {
    left,
    first,
    last,
    top,
    width,
    x: (/** @type {number} */ time) => left + ((time - first) / (last - first)) * (width - left),
    y: (/** @type {number} */ value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - BOTTOM - TOP),
    timeAt: (/** @type {number} */ x) => first + ((Math.max(x, left) - left) / (width - left)) * (last - first),
  };
}

/**
 * Rounds up to 1, 2, 4, 6, 8, 10, 20, ...; counts to at least 2, so that the middle is a whole number.
 * @param {number} value
 * @param {boolean} isCount
 */
function roundUp(value, isCount) {
  if (value <= (isCount ? 2 : 0)) return isCount ? 2 : 1;
  const power = 10 ** Math.floor(Math.log10(value));
  const step = [1, 2, 4, 6, 8].find((one) => one * power >= value * (1 - 1e-9)) ?? 10;
  return step * power;
}

/**
 * @param {ReturnType<typeof scaleOf>} scale
 * @param {Format} show
 */
function axes(scale, show) {
  if (!scale) return [];
  const lines = [0, 0.5, 1].map((part) => {
    const y = scale.y(scale.top * part);
    return [
      s("line", { class: "grid", x1: scale.left, x2: scale.width, y1: y, y2: y }),
      s("text", { class: "axis", x: scale.left - 6, y: y + 4, "text-anchor": "end" }, show(scale.top * part)),
    ];
  });
  const moments = [0, 0.5, 1].map((part) => {
    const anchor = ["start", "middle", "end"][part * 2];
    const time = scale.first + (scale.last - scale.first) * part;
    return s(
      "text",
      { class: "axis", x: scale.x(time), y: HEIGHT - 4, "text-anchor": anchor },
      clockTime(time, scale.last - scale.first < LONG),
    );
  });
  return [lines, moments];
}

/**
 * @param {Series} series
 * @param {number} line
 * @param {ReturnType<typeof scaleOf>} scale
 */
function curve(series, line, scale) {
  if (!scale || series.points.length < 2) return null;
  let isGap = true;
  const path = series.points
    .map(([time, value], at) => {
      const command = isGap ? "M" : "L";
      const isAlone = isGap && (series.points[at + 1]?.[1] ?? null) === null; // a dot
      isGap = value === null;
      if (value === null) return "";
      return `${command}${scale.x(time).toFixed(1)} ${scale.y(value).toFixed(1)}${isAlone ? "m-1.5 0h3" : ""}`;
    })
    .join("");
  return s("path", { class: `line line-${line}`, d: path });
}

/**
 * A small line without axes.
 * @param {(number | null | undefined)[]} values
 * @param {string} label
 */
export function sparkline(values, label) {
  const known = values.filter((value) => typeof value === "number");
  if (known.length < 2) return h("span", { class: "faint" }, "–");
  const top = known.reduce((a, b) => Math.max(a, b), 1);
  const step = 96 / (known.length - 1);
  const path = known
    .map((value, at) => `${at ? "L" : "M"}${(2 + at * step).toFixed(1)} ${(22 - (value / top) * 19).toFixed(1)}`)
    .join("");
  return s(
    "svg",
    { viewBox: "0 0 100 24", class: "spark", role: "img", "aria-label": label },
    s("path", { class: "line line-0", d: path }),
  );
}

/**
 * Samples of the API, newest first, as points or as rates between them. The API leaves out times in which it took no
 * samples: there the points have a gap. A counter that decreases was reset by a restart, which is a gap as well.
 * @returns {Point[]}
 * @param {{ samples?: Sample[] } | undefined} details
 * @param {boolean} [isRate]
 */
export function pointsOf(details, isRate) {
  const samples = [...(details?.samples ?? [])].reverse();
  const step = stepOf(samples);
  /** @type {Point[]} */
  const points = samples.flatMap((one, at) => {
    const before = samples[at - 1];
    const isGap = before && one.timestamp - before.timestamp > step;
    if (!isRate) return withGap(isGap, before, [one.timestamp, one.sample]);
    if (!before) return [];
    const grown = one.sample - before.sample;
    const seconds = (one.timestamp - before.timestamp) / 1000;
    return [/** @type {Point} */ ([one.timestamp, isGap || grown < 0 ? null : grown / seconds])];
  });
  return isRate ? points.slice(1) : points; // the first sample may predate the history of an object, and repeat one
}

/** @typedef {{ timestamp: number, sample: number }} Sample */

/**
 * Milliseconds: a longer time between two samples is a gap.
 * @param {Sample[]} samples
 */
function stepOf(samples) {
  const steps = samples.slice(1).map((one, at) => one.timestamp - samples[at].timestamp);
  return Math.min(...steps, Infinity) * 1.5;
}

/**
 * @param {boolean} isGap
 * @param {Sample} before
 * @param {Point} point
 * @returns {Point[]}
 */
function withGap(isGap, before, point) {
  return isGap ? [[before.timestamp + 1, null], point] : [point];
}

/**
 * The series of a chart: the rates of some counters, by label. Several counters are added up.
 * @param {Record<string, any> | undefined} counters
 * @param {Record<string, string | string[]>} names
 */
export function rateSeries(counters, names) {
  return Object.entries(names).map(([label, name]) => ({
    label,
    points: pointsOf(addedDetails([name].flat().map((one) => counters?.[`${one}_details`])), true),
  }));
}

/**
 * The sums of samples with the same time.
 * @param {({ samples?: Sample[] } | undefined)[]} details
 * @returns {{ samples: Sample[] }}
 */
export function addedDetails(details) {
  /** @type {Map<number, number>} */
  const sums = new Map();
  for (const one of details)
    for (const { timestamp, sample } of one?.samples ?? []) sums.set(timestamp, (sums.get(timestamp) ?? 0) + sample);
  return { samples: [...sums].map(([timestamp, sample]) => ({ timestamp, sample })) };
}
