// The time, second by second, for what counts on in the table. It stands still while nobody looks at it.

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
