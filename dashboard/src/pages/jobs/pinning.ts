// Where pinned columns stay while the others scroll.

import type { Column, ColumnId } from "./columns.ts";

/** The distance of each pinned column from the left edge, after `start_px`. Pinned columns come first. */
export function placesOf(
  columns: readonly (Column & { readonly id: ColumnId })[],
  pinned: readonly ColumnId[],
  start_px: number,
): ReadonlyMap<ColumnId, number> {
  const places = new Map<ColumnId, number>();
  let left_px = start_px;
  for (const { id, width_px } of columns) {
    if (!pinned.includes(id)) break;
    places.set(id, left_px);
    left_px += width_px;
  }
  return places;
}
