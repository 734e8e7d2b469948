// A history of values for which the broker keeps none, recorded while the page is open.

const KEPT = 60; // values per key
const MOST = 2000; // keys

export class ValueHistory {
  /** @type {Map<string, number[]>} */
  #seen = new Map();

  /**
   * Records a value; returns all values of the key, the latest last.
   * @param {string} key
   * @param {number} value
   */
  note(key, value) {
    const known = [...(this.#seen.get(key) ?? []), value].slice(-KEPT);
    this.#seen.delete(key); // moves the key to the end: the first key is the oldest
    this.#seen.set(key, known);
    const [oldest] = this.#seen.keys();
    if (this.#seen.size > MOST) this.#seen.delete(oldest);
    return known;
  }

  /** @param {string} key */
  of(key) {
    return this.#seen.get(key) ?? [];
  }
}
