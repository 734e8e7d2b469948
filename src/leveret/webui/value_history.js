// A history of values for which the broker keeps none, recorded while the page is open.

const KEPT = 60; // values per key
const MOST = 2000; // keys

export class ValueHistory {
  #seen = new Map();

  /** Records a value; returns all values of the key, the latest last. */
  note(key, value) {
    const known = [...(this.#seen.get(key) ?? []), value].slice(-KEPT);
    this.#seen.delete(key); // moves the key to the end: the first key is the oldest
    this.#seen.set(key, known);
    if (this.#seen.size > MOST) this.#seen.delete(this.#seen.keys().next().value);
    return known;
  }

  of(key) {
    return this.#seen.get(key) ?? [];
  }
}
