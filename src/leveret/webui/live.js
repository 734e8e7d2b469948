// Keeps a page up to date: asks every 5 seconds, one request at a time, and rests while nobody looks.

import { ApiError } from "./api.js";

export const INTERVAL = 5000;
const PATIENCE = 5; // what takes the broker long is asked for less often: at most a fifth of the time is spent on it

let rests = 0; // for how many acts nothing is asked
const underWay = new Set(); // what has been asked and not been answered

/** Calls `act` when all that was asked is answered; until it is done nothing else is: what it ends is not asked for. */
export async function atRest(act) {
  rests += 1;
  try {
    await Promise.all(underWay);
    return await act();
  } finally {
    rests -= 1;
  }
}

/** Calls `ask(signal)` now and again until `signal` is aborted; gives a function that asks at once. */
export function live(signal, ask, onError) {
  let timer = 0;
  let isAsking = false;
  let isWanted = false;

  async function turn() {
    clearTimeout(timer);
    if (signal.aborted || document.hidden) return;
    if (isAsking) {
      isWanted = true;
      return;
    }
    if (rests) {
      timer = setTimeout(turn, INTERVAL);
      return;
    }
    isAsking = true;
    const began = performance.now();
    const attempted = attempt();
    underWay.add(attempted);
    await attempted;
    underWay.delete(attempted);
    const took = performance.now() - began;
    isAsking = false;
    if (signal.aborted) return;
    if (isWanted) {
      isWanted = false;
      turn();
    } else {
      timer = setTimeout(turn, Math.max(INTERVAL, took * PATIENCE));
    }
  }

  async function attempt() {
    try {
      await ask(signal);
    } catch (problem) {
      if (signal.aborted || problem.name === "AbortError") return;
      if (!(problem instanceof ApiError)) console.error(problem);
      if (problem.status !== 0) onError?.(problem); // a broker that does not answer is told of above the page
    }
  }

  document.addEventListener("visibilitychange", turn, { signal });
  signal.addEventListener("abort", () => clearTimeout(timer));
  turn();
  return turn;
}
