// Fuzzy matching of names: "shp.ord" finds "shop.orders".

const LOOSE = 2; // a match may span this many times the text, and a few characters more
const SPARE = 4;

/**
 * How far `name` is from `text`: 0 equal, 1 begins with it, 2 contains it, 3 or more has its letters in this order;
 * null if it does not match.
 * @param {string} name
 * @param {string} text
 */
export function distance(name, text) {
  const [known, wanted] = [name.toLowerCase(), text.toLowerCase()];
  if (known === wanted) return 0;
  if (known.startsWith(wanted)) return 1;
  if (known.includes(wanted)) return 2;
  const span = shortestSpan(known, wanted);
  return span === null || span > wanted.length * LOOSE + SPARE ? null : 3 + span - wanted.length;
}

/**
 * The length of the shortest part of `name` that has all letters of `text` in order.
 * @param {string} name
 * @param {string} text
 */
function shortestSpan(name, text) {
  /** @type {number | null} */
  let best = null;
  for (let start = name.indexOf(text[0]); start >= 0; start = name.indexOf(text[0], start + 1)) {
    const end = [...text].reduce((at, letter) => (at < 0 ? at : name.indexOf(letter, at) + 1 || -1), start);
    if (end < 0) return best;
    if (best === null || end - start < best) best = end - start;
  }
  return best;
}

/**
 * A regular expression for the API that finds the letters of the text in this order. Between two letters it skips all
 * others, so that it needs no backtracking.
 * @param {string} text
 */
export function fuzzyPattern(text) {
  const letters = [...text].map((letter) => {
    const both = [...new Set([letter.toLowerCase(), letter.toUpperCase()])].join("");
    return both.replace(/[\\[\]^-]/g, "\\$&");
  });
  return letters.map((letter, at) => `${at ? `[^${letter}]*` : ""}[${letter}]`).join("");
}
