// Keeps a page up to date: asks every 5 seconds, one request at a time, and rests while nobody looks.

import { ApiError } from "./api.js";

export const INTERVAL = 5000;

let whenHealthChanges = () => {};

/** Told null when the broker answers, else the error. */
export function onHealth(call) {
  whenHealthChanges = call;
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
    isAsking = true;
    await attempt();
    isAsking = false;
    if (signal.aborted) return;
    if (isWanted) {
      isWanted = false;
      turn();
    } else {
      timer = setTimeout(turn, INTERVAL);
    }
  }

  async function attempt() {
    try {
      await ask(signal);
      if (!signal.aborted) whenHealthChanges(null);
    } catch (problem) {
      if (signal.aborted || problem.name === "AbortError") return;
      if (!(problem instanceof ApiError)) console.error(problem);
      if (problem.status === 0) whenHealthChanges(problem);
      else onError?.(problem);
    }
  }

  document.addEventListener("visibilitychange", turn, { signal });
  signal.addEventListener("abort", () => clearTimeout(timer));
  turn();
  return turn;
}
