// The curves of the job that a job continues, up to where it continues: both together are one whole curve. Pure.

import type { Line } from "../../../charts/lines.ts";
import { type ByRank, lineOf } from "./chart.ts";

export interface Before {
  /** The name of that job. */
  readonly name: string;
  readonly metrics: ReadonlyMap<string, ByRank>;
  /** The place on the axis at which it continues; infinite while it is unknown. */
  readonly end: number;
}

/** The line of a metric of the job before: over all ranks or, where a script reports by step alone, of its rank. */
export function linesBefore(before: Before | undefined, metric: string, own: ByRank): Line[] {
  const ranks = before?.metrics.get(metric);
  const points = ranks?.get(-1) ?? ranks?.get(0);
  if (before === undefined || points === undefined) return [];
  const ownStart = Math.min(...[...own.values()].map(({ xs }) => xs[0] ?? Number.POSITIVE_INFINITY));
  const end = points.xs.findIndex((x) => x > before.end || x >= ownStart);
  const count = end < 0 ? points.xs.length : end;
  if (count === 0) return [];
  const [xs, ys] = [points.xs.slice(0, count), points.ys.slice(0, count)];
  const isValidation = metric.startsWith("val_");
  const style = isValidation
    ? { key: "before val", name: `${before.name}, validation`, dash: [6, 3] }
    : { key: "before", name: before.name, dash: [2, 3] };
  return [lineOf({ ...style, colour: "muted" }, { xs, ys, bands: [] })];
}
