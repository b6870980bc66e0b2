// The heat map of a column: the colour of a figure between the least and the greatest of the loaded rows.

import { extentOf, shareOf, tint } from "../../charts/ramp.ts";
import { isBetterLower } from "../../metrics.ts";
import type { ColumnId } from "./columns.ts";
import { csvColumns } from "./csv.ts";
import { metricOf } from "./figures.ts";
import type { Row } from "./row.ts";

export type Extent = readonly [least: number, greatest: number];

/** The least and the greatest value of each of these columns; columns without numbers are left out. */
export function extentsOf(rows: readonly Row[], ids: readonly string[], metric: string): Record<string, Extent> {
  const extents: Record<string, Extent> = {};
  for (const id of ids) {
    const read = figureOf(id, metric);
    const extent = extentOf(rows.map(read).filter((value) => value !== null));
    if (extent !== null) extents[id] = extent;
  }
  return extents;
}

/** The background of a cell. The better values of a metric are stronger; of all other figures, the greater ones. */
export function heatOf(row: Row, id: string, metric: string, extent: Extent): string | undefined {
  const value = figureOf(id, metric)(row);
  if (value === null) return undefined;
  const name = id === "best" ? metricOf(row, metric) : /^(?:metrics|last|test)\.(.*)/.exec(id)?.[1];
  const share = shareOf(value, extent);
  return tint(name && isBetterLower(name, row.goal) ? 1 - share : share);
}

function figureOf(id: string, metric: string): (row: Row) => number | null {
  const [first, second] = csvColumns([id as ColumnId], metric, Date.now()).slice(1);
  const read = (id === "best" ? second : first)?.[1];
  return (row) => {
    const value = read?.(row);
    return typeof value === "number" ? value : null;
  };
}
