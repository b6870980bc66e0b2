// The metrics of many runs, from the api's answer to lines of charts. Pure.

import type { JobMetrics } from "../../api/types.ts";
import type { Unit } from "../../charts/ticks.ts";

export interface Curve {
  readonly xs: Float64Array;
  readonly ys: Float64Array;
}

const MOST_IN_ALL = 1_000_000; // the api's limit for one answer
const ENOUGH = 1000; // more points than a chart has columns add nothing
const FEWEST = 4;

/** How many points to request for each curve. */
export function pointsEach(runs: number, metrics: number): number {
  return Math.max(FEWEST, Math.min(ENOUGH, Math.floor(MOST_IN_ALL / Math.max(1, runs * metrics))));
}

/** By run, then by metric. */
export function curvesOf(jobs: readonly JobMetrics[]): ReadonlyMap<string, ReadonlyMap<string, Curve>> {
  return new Map(
    jobs.map(({ id, series }) => [
      id,
      new Map(
        series.map(({ name, x, y }) => [
          name,
          { xs: Float64Array.from(x), ys: Float64Array.from(y, (value) => value ?? Number.NaN) },
        ]),
      ),
    ]),
  );
}

/** The metrics that every job has, in their order on the page: each beside its validation. */
export const USUAL = [
  "loss",
  "val_loss",
  "accuracy",
  "val_accuracy",
  "learning_rate",
  "samples_per_s",
  "epoch_s",
  "data_wait_s",
  "allreduce_s",
] as const;

export const SHOWN_AT_FIRST: readonly string[] = ["loss", "val_loss", "accuracy", "val_accuracy"];

/** The metrics to choose from: the usual ones, then other ones of these runs, and the chosen ones. */
export function metricsAmong(names: readonly string[], chosen: readonly string[]): string[] {
  return [...new Set([...USUAL, ...names, ...chosen])];
}

/** The chosen metrics in their order on the page. */
export function ordered(chosen: readonly string[], all: readonly string[]): string[] {
  return all.filter((name) => chosen.includes(name));
}

/** Whether a metric may have a logarithmic axis. Shares, which end at 1, may not. */
export function canBeLog(metric: string): boolean {
  return !metric.endsWith("accuracy");
}

/** The unit of a metric's values. */
export function countedIn(metric: string): Unit {
  return metric.endsWith("_s") && !metric.endsWith("per_s") ? "seconds" : "tens";
}
