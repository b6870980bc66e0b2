// The shown columns: a person's choice, stored in the browser, or those of the saved view that is open.

import { computed, type ReadonlySignal, signal } from "@preact/signals";
import { type Choice, defaultColumns, storedChoice } from "./columns.ts";

const KEY = "hora-job-columns";
const COMPACT = "hora-compact-rows";
const NARROW_PX = 760; // on narrower pages jobs are cards

const page_px = signal(innerWidth);
addEventListener("resize", () => {
  page_px.value = innerWidth;
});

const own = signal(storedChoice(localStorage.getItem(KEY)));
const ofView = signal<Choice | null>(null);

/** Whether rows have one line instead of two. */
export const isCompact = signal(localStorage.getItem(COMPACT) !== null);
export const row_px: ReadonlySignal<number> = computed(() => (isCompact.value ? 28 : 42));
export const isNarrow: ReadonlySignal<boolean> = computed(() => page_px.value < NARROW_PX);
export const isChosen: ReadonlySignal<boolean> = computed(() => (ofView.value ?? own.value) !== null);
export const choice: ReadonlySignal<Choice> = computed(
  () => ofView.value ?? own.value ?? { ids: defaultColumns(page_px.value), pinned: [] },
);

export function setCompact(isOn: boolean): void {
  isCompact.value = isOn;
  if (isOn) localStorage.setItem(COMPACT, "1");
  else localStorage.removeItem(COMPACT);
}

/** Show these columns; null shows those that fit on the page. Those of an open view change until it is closed. */
export function choose(columns: Choice | null): void {
  if (ofView.peek() !== null && columns !== null) {
    ofView.value = columns;
    return;
  }
  ofView.value = null;
  own.value = columns;
  if (columns === null) localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, JSON.stringify(columns));
}

/** Show the columns of a saved view, which are not stored; null shows a person's own again. */
export function lend(columns: Choice | null): void {
  ofView.value = columns;
}
