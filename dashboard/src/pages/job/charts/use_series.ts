// The data of a job's charts: polled while the job is live, with detail when zoomed in.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { usePolled } from "../../../api/polled.ts";
import type { Problem } from "../../../api/problem.ts";
import type { Job, Metrics as MetricsAnswer, Utilization } from "../../../api/types.ts";
import type { Range } from "../../../charts/lines.ts";
import type { Scope } from "../../../charts/scope.ts";
import { secondsBetween } from "../../../format.ts";
import { isTerminal } from "../../../parts/status.tsx";
import { listOf } from "../../../query.ts";
import { type Detail, metricsFrom, samplesFrom } from "./answers.ts";
import type { Metrics } from "./curves.ts";
import { MOST_POINTS, metricsPath, namesPath, type SeriesRequest, stretchFor, utilizationPath } from "./requests.ts";
import type { Samples } from "./slots.ts";
import type { Axis, Ranks } from "./view.ts";

export interface Series {
  readonly axis: Axis;
  readonly metrics: Metrics;
  readonly samples: Samples;
}

export interface SeriesInput {
  readonly job: Job;
  readonly axis: Axis;
  readonly ranks: Ranks;
  /** The metrics of slots and hosts to request; empty requests none. */
  readonly sampled: readonly string[];
  readonly scope: Scope;
}

const LIVE_S = 2;
const BEHIND_S = 10; // for the whole axis, while zoomed in
const NO_SAMPLES: Samples = { slots: new Map(), hosts: new Map() };

/** The newest data. A new axis is shown when all its data has come, so that all charts have the same axis. */
export function useSeries({ job, axis, ranks, sampled, scope }: SeriesInput): {
  series: Series | undefined;
  problem: Problem | undefined;
} {
  const isLive = !isTerminal(job.status);
  const stretch = useStretch(scope);
  const wholeRequest: SeriesRequest = { id: job.id, axis, ranks, count: job.gpus, stretch: null, ...lengthOf(job) };
  const detailRequest: SeriesRequest = { ...wholeRequest, stretch };
  const metricNames = useNames(job, axis, isLive);
  const [everyS, nearS] = isLive ? [stretch === null ? LIVE_S : BEHIND_S, LIVE_S] : [ONCE, ONCE];

  const metricsAt = (request: SeriesRequest) => (metricNames === undefined ? null : metricsPath(request, metricNames));
  const samplesAt = (request: SeriesRequest) => (sampled.length === 0 ? null : utilizationPath(request, sampled));
  const metrics = useKept<MetricsAnswer>(metricsAt(wholeRequest), wholeRequest, everyS);
  const samples = useKept<Utilization>(samplesAt(wholeRequest), wholeRequest, everyS);
  const nearMetrics = useKept<MetricsAnswer>(stretch && metricsAt(detailRequest), detailRequest, nearS);
  const nearSamples = useKept<Utilization>(stretch && samplesAt(detailRequest), detailRequest, nearS);

  const built = useMemo(() => {
    const { kept } = metrics;
    if (kept === undefined) return undefined;
    const detail = detailOf(nearMetrics.kept, kept.axis);
    const ofSlots = samples.kept?.axis === kept.axis ? samples.kept.data : undefined;
    return {
      axis: kept.axis,
      metrics: metricsFrom(kept.data.series, detail && { ...detail, data: detail.data.series }),
      samples: ofSlots === undefined ? NO_SAMPLES : samplesFrom(ofSlots, detailOf(nearSamples.kept, kept.axis)),
    };
  }, [metrics.kept, samples.kept, nearMetrics.kept, nearSamples.kept]);
  const areSamplesThere = sampled.length === 0 || samples.kept?.axis === axis || samples.problem !== undefined;
  const shown = useRef<Series | undefined>(undefined);
  if (built?.axis === axis && (areSamplesThere || shown.current === undefined || shown.current.axis === axis))
    shown.current = built;
  return { series: shown.current, problem: metrics.problem ?? samples.problem };
}

const ONCE = Number.POSITIVE_INFINITY;

function lengthOf({ progress, started_at, ended_at }: Job) {
  return {
    hasManySteps: (progress.step ?? 0) > MOST_POINTS,
    hasManySeconds: (secondsBetween(started_at, ended_at) ?? 0) > MOST_POINTS,
  };
}

/** The names of the metrics. On the axis of epochs they are needed before the metrics can be requested. */
function useNames({ id, metrics }: Job, axis: Axis, isLive: boolean): readonly string[] | undefined {
  const path = axis === "epoch" ? namesPath(id) : null;
  const { data } = usePolled<MetricsAnswer>(path, { every_s: isLive ? BEHIND_S : ONCE });
  const ofSteps = Object.keys(metrics).join(); // a script may report some by step alone
  return useMemo(() => {
    if (path === null) return [];
    return data && [...new Set([...data.series.map(({ name }) => name), ...listOf(ofSteps)])];
  }, [path, data, ofSteps]);
}

interface Kept<T> {
  readonly path: string;
  readonly axis: Axis;
  readonly stretch: Range | null;
  readonly data: T;
}

/** The newest answer, kept until the answer to a new request has come. */
function useKept<T>(path: string | null, { axis, stretch }: SeriesRequest, every_s: number) {
  const { data, problem } = usePolled<T>(path, { every_s });
  const kept = useRef<Kept<T> | undefined>(undefined);
  if (path === null) kept.current = undefined;
  else if (data !== undefined && (kept.current?.path !== path || kept.current.data !== data))
    kept.current = { path, axis, stretch, data };
  return { kept: kept.current, problem };
}

function detailOf<T>(kept: Kept<T> | undefined, axis: Axis): Detail<T> | undefined {
  return kept?.axis === axis && kept.stretch !== null ? { data: kept.data, stretch: kept.stretch } : undefined;
}

const SETTLED_MS = 150; // ranges that are only passed are not requested

/** The range to request in detail; null if all is in view. */
function useStretch(scope: Scope): Range | null {
  const [stretch, setStretch] = useState(() => stretchFor(scope.zoom.peek(), null));
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = scope.zoom.subscribe((zoom) => {
      clearTimeout(timer);
      timer = setTimeout(() => setStretch((before) => stretchFor(zoom, before)), SETTLED_MS);
    });
    return () => {
      clearTimeout(timer);
      stop();
    };
  }, [scope]);
  return scope.zoom.peek() === null ? null : stretch;
}
