// The columns that are shown: a taste of the person, kept in the browser, and no part of what a link shows.

import { computed, type ReadonlySignal, signal } from "@preact/signals";
import { type ColumnId, chosenColumns, defaultColumns } from "./columns.ts";

const KEY = "hora-job-columns";
const NARROW_PX = 760; // below it jobs are cards, and no rows

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

/** Show these; null are those that the page has room for. */
export function choose(ids: readonly ColumnId[] | null): void {
  chosenIds.value = ids === null ? null : chosenColumns(ids.join(","));
  if (chosenIds.value === null) localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, chosenIds.value.join(","));
}
