// The keys of what is on the page now, for the dialog that lists them.

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";

/** Which keys, and what they do. */
export type KeyRows = readonly (readonly [keys: string, text: string])[];

export const keyHelp = signal<ReadonlyMap<string, KeyRows>>(new Map());

/** List keys while the component exists. `rows` must stay the same. */
export function useKeyHelp(title: string, rows: KeyRows): void {
  useEffect(() => {
    keyHelp.value = new Map(keyHelp.peek()).set(title, rows);
    return () => {
      const next = new Map(keyHelp.peek());
      next.delete(title);
      keyHelp.value = next;
    };
  }, [title, rows]);
}
