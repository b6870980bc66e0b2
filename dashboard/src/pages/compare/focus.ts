// The run that is pointed at: the list, the charts, the table and the parallel coordinates all show which one it is.

import { effect, type ReadonlySignal, signal } from "@preact/signals";

export const focused = signal<string | null>(null);

const SETTLED_MS = 40;
const settled = signal<string | null>(null);

/** The same once the pointer rests: charts are not drawn for every run that it passes over. */
export const settledFocus: ReadonlySignal<string | null> = settled;

effect(() => {
  const now = focused.value;
  const timer = setTimeout(() => {
    settled.value = now;
  }, SETTLED_MS);
  return () => clearTimeout(timer);
});

/** For an element that stands for a run: pointing at it, or coming to it with the keyboard, points at the run. */
export function focusing(id: string) {
  const enter = (): void => {
    focused.value = id;
  };
  const leave = (): void => {
    if (focused.peek() === id) focused.value = null;
  };
  return { onPointerEnter: enter, onPointerLeave: leave, onFocusIn: enter, onFocusOut: leave };
}
