// The api's answers in the form that charts need: by metric and rank, with the attempts of a rank joined. Within the
// range in view they have the detail of a second answer.

import type { MetricSeries, SampleSeries, Utilization } from "../../../api/types.ts";
import type { Range } from "../../../charts/lines.ts";
import type { ByRank } from "./chart.ts";
import type { Metrics } from "./curves.ts";
import { joined, type Points, pointsOf, spliced } from "./points.ts";
import type { Sampled, Samples } from "./slots.ts";

/** An answer about a range of the axis, and the range. */
export interface Detail<T> {
  readonly data: T;
  readonly stretch: Range;
}

export function metricsFrom(series: readonly MetricSeries[], detail?: Detail<readonly MetricSeries[]>): Metrics {
  const byName = (all: readonly MetricSeries[]): Metrics => {
    const found = new Map<string, ByRank>();
    for (const [name, ofName] of grouped(all, (one) => one.name))
      found.set(name, new Map(ofName.map((one) => [one.rank, pointsOf(one)])));
    return found;
  };
  const wide = byName(series);
  if (detail === undefined) return wide;
  const near = byName(detail.data);
  return new Map([...wide].map(([name, ranks]) => [name, refined(ranks, near.get(name) ?? new Map(), detail.stretch)]));
}

export function samplesFrom(answer: Utilization, detail?: Detail<Utilization>): Samples {
  const near = detail && samplesFrom(detail.data);
  const slots = new Map<string, Sampled<number>>();
  for (const [metric, series] of grouped(answer.series, (one) => one.metric)) {
    slots.set(metric, sampled(series, bySlot(series), near?.slots.get(metric), detail?.stretch));
  }
  const hosts = new Map<string, Sampled<string>>();
  for (const [metric, series] of grouped(answer.hosts, (one) => one.metric)) {
    const byHost = new Map(series.map((one) => [one.host, joined([pointsOf(one)])]));
    hosts.set(metric, sampled(series, byHost, near?.hosts.get(metric), detail?.stretch));
  }
  return { slots, hosts };
}

function bySlot(series: readonly SampleSeries[]): ByRank {
  const ranks = grouped(series, (one) => one.rank);
  const inOrder = (of: readonly SampleSeries[]): readonly SampleSeries[] =>
    of.toSorted((a, b) => a.attempt - b.attempt);
  return new Map([...ranks].map(([rank, attempts]) => [rank, joined(inOrder(attempts).map(pointsOf))]));
}

function sampled<K>(
  series: readonly { readonly limit: number | null }[],
  of: ReadonlyMap<K, Points>,
  near: Sampled<K> | undefined,
  stretch: Range | undefined,
): Sampled<K> {
  const limits = series.flatMap(({ limit }) => (limit === null ? [] : [limit]));
  const shown = stretch === undefined ? of : refined(of, near?.pointsByKey ?? new Map(), stretch);
  return { pointsByKey: shown, limit: limits.length === 0 ? null : Math.max(...limits) };
}

/** Each series with its detail. Without detail it has no points in that range. */
function refined<K>(wide: ReadonlyMap<K, Points>, near: ReadonlyMap<K, Points>, stretch: Range): Map<K, Points> {
  const none: Points = { xs: [], ys: [], bands: [] };
  return new Map([...wide].map(([key, points]) => [key, spliced(points, near.get(key) ?? none, stretch)]));
}

/** Lists of the items with the same key. */
export function grouped<K, T>(all: readonly T[], keyOf: (item: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const item of all) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return groups;
}
