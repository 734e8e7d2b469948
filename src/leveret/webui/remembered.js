// Numbers that the broker keeps no history of, as this page has seen them go by.

const KEPT = 60; // values of one thing
const MOST = 2000; // things

export class Remembered {
  #seen = new Map();

  /** Gives all that are known of this one, the latest at the end. */
  note(key, value) {
    const known = [...(this.#seen.get(key) ?? []), value].slice(-KEPT);
    this.#seen.delete(key); // the one that was noted last stands at the end
    this.#seen.set(key, known);
    if (this.#seen.size > MOST) this.#seen.delete(this.#seen.keys().next().value);
    return known;
  }

  of(key) {
    return this.#seen.get(key) ?? [];
  }
}
