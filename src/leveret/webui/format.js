// Formats numbers, sizes and times. Unknown values are a dash.

export const NONE = "–";

const WHOLE = new Intl.NumberFormat("en-US");
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/**
 * @param {unknown} value
 * @returns {value is number}
 */
export function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

/** @param {unknown} value */
export function number(value) {
  return isNumber(value) ? WHOLE.format(Math.round(value)) : NONE;
}

/**
 * 950, 4,321, 12.3 k, 4.6 M: for charts and narrow columns.
 * @param {unknown} value
 */
export function short(value) {
  if (!isNumber(value)) return NONE;
  const size = Math.abs(value);
  if (size < 10_000 && Number.isInteger(value)) return WHOLE.format(value);
  if (size < 10 && !Number.isInteger(value)) return value.toFixed(1);
  if (size < 1000) return String(Math.round(value));
  for (const [at, unit] of ["k", "M", "G"].entries()) {
    const one = 1000 ** (at + 1);
    if (size < one * 1000) return `${Number((value / one).toPrecision(3))} ${unit}`;
  }
  return `${(value / 1e12).toPrecision(3)} T`;
}

/** @param {unknown} value */
export function rate(value) {
  if (!isNumber(value)) return NONE;
  if (value === 0) return "0/s";
  return `${Math.abs(value) < 100 ? value.toFixed(1).replace(/\.0$/, "") : WHOLE.format(Math.round(value))}/s`;
}

/** @param {unknown} value */
export function bytes(value) {
  if (!isNumber(value)) return NONE;
  let at = 0;
  let size = value;
  while (Math.abs(size) >= 1024 && at < UNITS.length - 1) {
    size /= 1024;
    at += 1;
  }
  return `${at === 0 || size >= 100 ? Math.round(size) : size.toFixed(1)} ${UNITS[at]}`;
}

/** @param {unknown} value */
export function byteRate(value) {
  return isNumber(value) ? `${bytes(value)}/s` : NONE;
}

/**
 * 850 ms, 12 s, 3 min 20 s, 5 h 12 min, 3 d 4 h.
 * @param {unknown} seconds
 */
export function duration(seconds) {
  if (!isNumber(seconds)) return NONE;
  if (seconds > 0 && seconds < 1) return `${Math.max(Math.round(seconds * 1000), 1)} ms`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return two(whole, 60, "min", 1, "s");
  if (whole < 86400) return two(whole, 3600, "h", 60, "min");
  return two(whole, 86400, "d", 3600, "h");
}

/**
 * @param {number} whole
 * @param {number} large
 * @param {string} largeName
 * @param {number} small
 * @param {string} smallName
 */
function two(whole, large, largeName, small, smallName) {
  const rest = Math.floor((whole % large) / small);
  return `${Math.floor(whole / large)} ${largeName}${rest ? ` ${rest} ${smallName}` : ""}`;
}

/**
 * @param {number} milliseconds
 * @param {boolean} hasSeconds
 */
export function clockTime(milliseconds, hasSeconds = true) {
  return new Date(milliseconds).toLocaleTimeString([], {
    hour: "2-digit",
    minute: "2-digit",
    second: hasSeconds ? "2-digit" : undefined,
  });
}

/**
 * 3 s ago.
 * @param {number} seconds
 */
export function ago(seconds) {
  return seconds < 1 ? "just now" : `${duration(seconds)} ago`;
}

/**
 * @param {number} count
 * @param {string} one
 * @param {string} many
 */
export function plural(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}
