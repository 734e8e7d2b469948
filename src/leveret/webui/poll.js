// Polls the broker every 5 seconds, one request at a time, while the page is visible.

import { ApiError } from "./api.js";

export const INTERVAL = 5000;
const PATIENCE = 5; // slow requests are repeated less often: at most a fifth of the time is spent on them

let pauses = 0; // number of actions that currently pause polling
/** @type {Set<Promise<void>>} */
const underWay = new Set(); // requests without a response yet

/**
 * Calls `act` while polling is paused, so that no request asks for an object that `act` deletes.
 * @template T
 * @param {() => T | Promise<T>} act
 */
export async function withoutPolling(act) {
  pauses += 1;
  try {
    await Promise.all(underWay);
    return await act();
  } finally {
    pauses -= 1;
  }
}

/**
 * Calls `ask(signal)` periodically until `signal` is aborted; returns a function that polls immediately.
 * @param {AbortSignal} signal
 * @param {(signal: AbortSignal) => Promise<void>} ask
 * @param {(problem: import("./api.js").Problem) => void} [onError]
 */
export function poll(signal, ask, onError) {
  let timer = 0;
  let isAsking = false;
  let isWanted = false;

  async function pollNow() {
    clearTimeout(timer);
    if (signal.aborted || document.hidden) return;
    if (isAsking) {
      isWanted = true;
      return;
    }
    if (pauses) {
      timer = setTimeout(pollNow, INTERVAL);
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
      pollNow();
    } else {
      timer = setTimeout(pollNow, Math.max(INTERVAL, took * PATIENCE));
    }
  }

  async function attempt() {
    try {
      await ask(signal);
    } catch (problem) {
      if (signal.aborted || problem.name === "AbortError") return;
      if (!(problem instanceof ApiError)) console.error(problem);
      if (problem.status !== 0) onError?.(problem); // the shell reports an unreachable broker
    }
  }

  document.addEventListener("visibilitychange", pollNow, { signal });
  signal.addEventListener("abort", () => clearTimeout(timer));
  pollNow();
  return pollNow;
}
