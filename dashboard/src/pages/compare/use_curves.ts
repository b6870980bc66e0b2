// The curves of the runs, from the api's answer for many jobs at once. Ended jobs are read once, live ones are
// polled.

import { useMemo, useRef } from "preact/hooks";
import { usePolled } from "../../api/polled.ts";
import type { Problem } from "../../api/problem.ts";
import type { ManyMetrics } from "../../api/types.ts";
import { pathWith } from "../../query.ts";
import {
  type Axis,
  apiAxis,
  type Curve,
  curvesOf,
  hasScript,
  MOST_METRICS,
  metricOfAxis,
  onAxis,
  pointsEach,
} from "./curves.ts";
import type { Run } from "./runs.ts";

export interface Curves {
  /** By run, then by metric; undefined until they have come. */
  readonly byRun: ReadonlyMap<string, ReadonlyMap<string, Curve>> | undefined;
  readonly problem: Problem | undefined;
}

export function useCurves(runs: readonly Run[], metrics: readonly string[], axis: Axis): Curves {
  const along = metricOfAxis(axis);
  const shown = metrics.slice(0, MOST_METRICS - (along === null ? 0 : 1));
  const name = [...new Set([...shown, ...(along === null ? [] : [along])])];
  const rank = hasScript(runs.map(({ job }) => job)) ? [-1, 0] : [-1];
  const ended = runs.filter(({ job }) => job.ended_at !== null).map(({ id }) => id);
  const live = runs.filter(({ job }) => job.ended_at === null && job.started_at !== null).map(({ id }) => id);
  const max_points = pointsEach(runs.length, name.length * rank.length);
  const path = (job: readonly string[]): string | null =>
    job.length === 0 || metrics.length === 0
      ? null
      : pathWith("/v1/metrics", { job, name, rank, axis: apiAxis(axis), max_points });
  const once = usePolled<ManyMetrics>(path(ended), { every_s: Number.POSITIVE_INFINITY });
  const polled = usePolled<ManyMetrics>(path(live), { every_s: 2 });
  const hasOnce = ended.length === 0 || once.data !== undefined;
  const hasPolled = live.length === 0 || polled.data !== undefined;
  const starts = JSON.stringify(axis === "clock" ? runs.map(({ id, job }) => [id, job.started_at]) : []);
  const newCurves = useMemo(() => {
    if (!hasOnce || !hasPolled) return undefined;
    const startById = new Map<string, string | null>(JSON.parse(starts));
    const curves = curvesOf([...(once.data?.jobs ?? []), ...(polled.data?.jobs ?? [])]);
    return new Map([...curves].map(([id, each]) => [id, onAxis(each, axis, startById.get(id) ?? null)]));
  }, [hasOnce, hasPolled, once.data, polled.data, axis, starts]);
  // While the answer for other runs or metrics is on its way, the old one stays, so that charts do not blink.
  const shownCurves = useRef(newCurves);
  shownCurves.current = newCurves ?? shownCurves.current;
  return { byRun: shownCurves.current, problem: once.problem ?? polled.problem };
}
