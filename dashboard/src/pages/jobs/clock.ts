// The time, updated each second, for durations and ages in the table. It stops while nothing uses it.

import { type ReadonlySignal, signal } from "@preact/signals";

let timer: ReturnType<typeof setInterval> | undefined;
const ticking = signal(Date.now(), {
  watched: () => {
    timer = setInterval(() => {
      ticking.value = Date.now();
    }, 1000);
  },
  unwatched: () => clearInterval(timer),
});

/** Milliseconds, as of `Date.now()`. */
export const now: ReadonlySignal<number> = ticking;
