// The run that is pointed at: the list, the charts, the table and the parallel coordinates all show which one it is.

import { signal } from "@preact/signals";

export const focused = signal<string | null>(null);

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
