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

/** Handlers for an element of a run or a group: pointer or keyboard focus on it highlights it. */
export function focusing(id: string) {
  const enter = (): void => {
    focused.value = id;
  };
  const leave = (): void => {
    if (focused.peek() === id) focused.value = null;
  };
  return { onPointerEnter: enter, onPointerLeave: leave, onFocusIn: enter, onFocusOut: leave };
}
