// The shown columns: a person's choice, stored in the browser and not part of a link.

import { computed, type ReadonlySignal, signal } from "@preact/signals";
import { type ColumnId, chosenColumns, defaultColumns } from "./columns.ts";

const KEY = "hora-job-columns";
const NARROW_PX = 760; // on narrower pages jobs are cards

const page_px = signal(innerWidth);
addEventListener("resize", () => {
  page_px.value = innerWidth;
});

const chosenIds = signal(chosenColumns(localStorage.getItem(KEY)));

export const isNarrow: ReadonlySignal<boolean> = computed(() => page_px.value < NARROW_PX);
export const isChosen: ReadonlySignal<boolean> = computed(() => chosenIds.value !== null);
export const columnIds: ReadonlySignal<readonly ColumnId[]> = computed(
  () => chosenIds.value ?? defaultColumns(page_px.value),
);

/** Show these columns; null shows those that fit on the page. */
export function choose(ids: readonly ColumnId[] | null): void {
  chosenIds.value = ids === null ? null : chosenColumns(ids.join(","));
  if (chosenIds.value === null) localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, chosenIds.value.join(","));
}
