// The requests for the charts of a job: one for its metrics and one for its utilization, for all charts
// together. When zoomed in, the same two again for the range in view.

import type { Range } from "../../../charts/lines.ts";
import { pathWith } from "../../../query.ts";
import type { Axis, Ranks } from "./view.ts";

/** The settings that a request depends on. */
export interface SeriesRequest {
  readonly id: string;
  readonly axis: Axis;
  readonly ranks: Ranks;
  /** How many ranks the job has. */
  readonly count: number;
  /** Null: all of the axis. */
  readonly stretch: Range | null;
  /** There are more steps than an answer has points, so bands of metrics are requested too. */
  readonly hasManySteps: boolean;
  /** There are more seconds than an answer has points, so bands of samples are requested too. */
  readonly hasManySeconds: boolean;
}

export const MOST_POINTS = 1000; // of a series: more points than a chart has columns add nothing
const FEWEST_POINTS = 200;
const POINTS_OF_ALL = 8000; // of one metric over all ranks
const MOST_NAMES = 100; // the api's limit for one answer
const BANDS = 200;
const BANDS_OF_ALL = 4000;

/** On the axis of epochs the api returns metrics of steps only by name. Those that jobs report are in `names`. */
const OF_STEPS = ["loss", "accuracy", "mae", "f1", "samples_per_s", "step_time_s", "data_wait_s", "allreduce_s"];

export function metricsPath(request: SeriesRequest, names: readonly string[]): string {
  const { id, axis, ranks } = request;
  return pathWith(`/v1/jobs/${id}/metrics`, {
    axis,
    name: axis === "epoch" ? [...new Set([...OF_STEPS, ...names])].slice(0, MOST_NAMES) : [],
    rank: typeof ranks === "number" ? [-1, ranks] : [],
    ...size(request, request.hasManySteps || ranks === "mean"),
  });
}

/** The path of a small answer with the names of a job's metrics of epochs. */
export function namesPath(id: string): string {
  return pathWith(`/v1/jobs/${id}/metrics`, { axis: "epoch", max_points: 4 });
}

export function utilizationPath(request: SeriesRequest, metrics: readonly string[]): string {
  const { id, axis, ranks } = request;
  return pathWith(`/v1/jobs/${id}/utilization`, {
    axis,
    metric: metrics,
    ...size(request, request.hasManySeconds || ranks === "mean"),
  });
}

function size({ stretch, ranks, count }: SeriesRequest, hasBands: boolean) {
  const series = typeof ranks === "number" ? 1 : Math.max(1, count);
  const points = Math.round(POINTS_OF_ALL / series);
  return {
    from: stretch?.[0],
    to: stretch?.[1],
    max_points: Math.min(MOST_POINTS * (stretch === null ? 1 : 2), Math.max(FEWEST_POINTS, points)),
    bands: hasBands ? Math.min(BANDS, Math.max(20, Math.round(BANDS_OF_ALL / series))) : null,
  };
}

const WIDEST = 4; // times the view; a wider old range is not used again

/** The range to request: `view` and half its length on each side. The previous range stays while it is good enough. */
export function stretchFor(view: Range | null, before: Range | null): Range | null {
  if (view === null) return null;
  const length = view[1] - view[0];
  if (before !== null && before[0] <= view[0] && view[1] <= before[1] && before[1] - before[0] <= WIDEST * length)
    return before;
  const unit = 10 ** Math.floor(Math.log10(length / 10));
  const rounded = (x: number, round: (x: number) => number): number => Number((round(x / unit) * unit).toPrecision(12));
  return [rounded(view[0] - length / 2, Math.floor), rounded(view[1] + length / 2, Math.ceil)];
}
