// The run that the pointer is at, by its id, or the group of runs, by its key. The list, the charts, the table and the parallel coordinates all highlight it.

import { effect, type ReadonlySignal, signal } from "@preact/signals";

export const focused = signal<string | null>(null);

const SETTLED_MS = 40;
const settled = signal<string | null>(null);

/** The same after the pointer rests, so that charts are not redrawn for every run that it passes. */
export const settledFocus: ReadonlySignal<string | null> = settled;

effect(() => {
  const now = focused.value;
  const timer = setTimeout(() => {
    settled.value = now;
  }, SETTLED_MS);
  return () => clearTimeout(timer);
});

const pinned = signal<string | null>(null);

/** Highlight a run or a group. Null ends that, except for the run that was clicked last. */
export function point(key: string | null): void {
  focused.value = key ?? pinned.peek();
}

/** Keep a run highlighted while the pointer is elsewhere; the same run again ends that. */
export function pin(id: string): void {
  pinned.value = pinned.peek() === id ? null : id;
  point(null);
}

/** Handlers for an element of a run or a group: pointer or keyboard focus on it highlights it. */
export function focusing(id: string) {
  const enter = (): void => point(id);
  const leave = (): void => {
    if (focused.peek() === id) point(null);
  };
  return { onPointerEnter: enter, onPointerLeave: leave, onFocusIn: enter, onFocusOut: leave };
}
