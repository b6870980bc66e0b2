// The answer of the api about the metrics of many runs, as lines of charts. Pure.

import type { JobMetrics } from "../../api/types.ts";
import type { Unit } from "../../charts/ticks.ts";

export interface Curve {
  readonly xs: Float64Array;
  readonly ys: Float64Array;
}

const MOST_IN_ALL = 1_000_000; // what the api gives in one answer
const ENOUGH = 1000; // more points than a chart has columns add nothing
const FEWEST = 4;

/** How many points of each curve to ask for. */
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

/** The metrics that every job has, in the order in which they are shown: each beside its validation. */
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

/** The metrics to choose from: the usual ones, then those that these runs have besides, and those that are chosen. */
export function metricsAmong(names: readonly string[], chosen: readonly string[]): string[] {
  return [...new Set([...USUAL, ...names, ...chosen])];
}

/** Metrics in the order in which they are shown. */
export function ordered(chosen: readonly string[], all: readonly string[]): string[] {
  return all.filter((name) => chosen.includes(name));
}

/** Whether a logarithm tells more of a metric: not of shares, which end at 1. */
export function canBeLog(metric: string): boolean {
  return !metric.endsWith("accuracy");
}

/** What the values of a metric are counted in. */
export function countedIn(metric: string): Unit {
  return metric.endsWith("_s") && !metric.endsWith("per_s") ? "seconds" : "tens";
}
