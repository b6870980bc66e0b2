// The metrics of many runs, from the api's answer to lines of charts. Pure.

import type { Job, JobMetrics } from "../../api/types.ts";
import { type Line, valueAt } from "../../charts/lines.ts";
import type { Unit } from "../../charts/ticks.ts";
import { goalMetricOf, inOrder, isMeasured, isScript, metricsOf } from "../../metrics.ts";
import type { Band } from "../job/charts/points.ts";

export interface Curve {
  readonly xs: Float64Array;
  readonly ys: Float64Array;
  readonly bands: readonly Band[];
  /** Of a mean over several slots: its range, and how many they are. */
  readonly around?: Pick<Line, "spread" | "counts">;
}

const MOST_IN_ALL = 1_000_000; // the api's limit for one answer
const ENOUGH = 1000; // more points than a chart has columns add nothing
const FEWEST = 4;

/** How many points to request for each curve. */
export function pointsEach(runs: number, metrics: number): number {
  return Math.max(FEWEST, Math.min(ENOUGH, Math.floor(MOST_IN_ALL / Math.max(1, runs * metrics))));
}

/** By run, then by metric: over all ranks, or else of the first rank that reported it. */
export function curvesOf(jobs: readonly JobMetrics[]): ReadonlyMap<string, ReadonlyMap<string, Curve>> {
  return new Map(
    jobs.map(({ id, series }) => [
      id,
      new Map(
        // Of several entries with one name the last one stays.
        series
          .toSorted((a, b) => b.rank - a.rank)
          .map(({ name, x, y, bands }) => [
            name,
            { xs: Float64Array.from(x), ys: Float64Array.from(y, (value) => value ?? Number.NaN), bands },
          ]),
      ),
    ]),
  );
}

/** The axis that the api has for the points of an axis. */
export function apiAxis(axis: Axis): "step" | "epoch" | "time" {
  return axis === "epoch" || axis === "time" ? axis : axis === "clock" ? "time" : "step";
}

/** The metric of an axis; null for the other axes. */
export function metricOfAxis(axis: Axis): string | null {
  return AXES.some(([name]) => name === axis) ? null : axis;
}

/** The curves of a run on the axis: by the time of day, or by the value that a metric has at the same step. */
export function onAxis(
  curves: ReadonlyMap<string, Curve>,
  axis: Axis,
  startedAt: string | null,
): ReadonlyMap<string, Curve> {
  if (apiAxis(axis) === axis) return curves;
  const along = axis === "clock" ? null : (curves.get(axis) ?? NO_POINTS);
  const startS = Date.parse(startedAt ?? "") / 1000;
  const moved = ({ xs, ys }: Curve): Curve => {
    const points = Array.from(xs, (x, i) => [along === null ? startS + x : valueAt(along, x), ys[i] as number] as const)
      .filter(([x]) => Number.isFinite(x))
      .sort(([a], [b]) => a - b);
    const column = (place: 0 | 1): Float64Array => Float64Array.from(points, (point) => point[place]);
    return { xs: column(0), ys: column(1), bands: [] };
  };
  return new Map(
    [...curves].flatMap(([name, curve]): [string, Curve][] => {
      const now = moved(curve);
      return now.xs.length === 0 ? [] : [[name, now]];
    }),
  );
}

const NO_POINTS = { xs: [], ys: [] };

/** The metrics of Hora's own loop, in their order on the page: each beside its validation. */
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

const SHOWN_AT_FIRST: readonly string[] = ["loss", "val_loss", "accuracy", "val_accuracy"];
export const MOST_METRICS = 20; // the api's limit for one answer

/** Whether one of the jobs is a script, whose metrics may be those of single ranks. */
export function hasScript(jobs: readonly Job[]): boolean {
  return jobs.some(({ spec }) => isScript(spec));
}

/** The metrics that are shown by default: those of Hora's own loop, and what counts for each job, with its training. */
export function shownAtFirst(jobs: readonly Job[]): readonly string[] {
  const goals = jobs.flatMap((job) => {
    const names = Object.keys(metricsOf(job));
    const goal = goalMetricOf(job.spec, names);
    return goal === null
      ? []
      : [goal.replace(/^val_(?=.)/, ""), goal].filter((name) => name === goal || names.includes(name));
  });
  const own = jobs.every(({ spec }) => isScript(spec)) ? [] : SHOWN_AT_FIRST;
  return [...new Set([...own, ...goals])].slice(0, MOST_METRICS);
}

export const AXES = [
  ["step", "Step"],
  ["epoch", "Epoch"],
  ["time", "Time"],
  ["clock", "Time of day"],
] as const;

/** One of `AXES`, or the name of a metric. */
export type Axis = string;

/** The axis that is shown by default: of steps if one of the jobs has reported metrics, but no end of an epoch. */
export function axisAtFirst(jobs: readonly Job[]): Axis {
  const hasStepsOnly = (job: Job): boolean => {
    const values = Object.values(metricsOf(job));
    return isScript(job.spec) && values.length > 0 && values.every(({ best_epoch }) => best_epoch == null);
  };
  return jobs.some(hasStepsOnly) ? "step" : "epoch";
}

/** The metrics to choose from: the usual ones, then other ones of these jobs, and the chosen ones. */
export function metricsAmong(jobs: readonly Job[], names: readonly string[], chosen: readonly string[]): string[] {
  const usual = jobs.every(({ spec }) => isScript(spec)) ? USUAL.filter((name) => names.includes(name)) : USUAL;
  const reported = [...names, ...jobs.flatMap((job) => Object.keys(metricsOf(job)))];
  const ofScripts = inOrder(new Set(reported.filter((name) => !isMeasured(name))), null);
  return [...new Set([...usual, ...ofScripts, ...names, ...chosen])];
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
