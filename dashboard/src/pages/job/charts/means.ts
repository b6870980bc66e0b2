// Computes from the points of series: a smooth line, the mean of several series, one series as a share of another.
//
// The api thins a long series and keeps its extremes, so the mean of the points in an answer is biased to spikes. The
// bands of the answer have the means of all points; where a band was thinned, its mean stands for its points here.

import { indexUpTo } from "../../../charts/lines.ts";
import { type Smoothing, smoothed } from "../../../charts/smoothing.ts";
import type { Band, Points } from "./points.ts";

interface Coordinates {
  readonly xs: readonly number[];
  readonly ys: readonly number[];
}

/** The points themselves; for a band that was thinned, its mean in its middle instead. */
export function withoutBias({ xs, ys, bands }: Points): Coordinates {
  const thinned = bands.filter(({ x_from, x_to, count }) => count > countWithin(xs, ys, x_from, x_to));
  if (thinned.length === 0) return { xs, ys };
  const points: [x: number, y: number][] = thinned.map(({ x_from, x_to, mean }) => [(x_from + x_to) / 2, mean]);
  let band = 0;
  for (const [i, x] of xs.entries()) {
    while (band < thinned.length && (thinned[band] as Band).x_to < x) band += 1;
    if (band === thinned.length || x < (thinned[band] as Band).x_from) points.push([x, ys[i] as number]);
  }
  points.sort(([a], [b]) => a - b);
  return { xs: points.map(([x]) => x), ys: points.map(([, y]) => y) };
}

function countWithin(xs: readonly number[], ys: readonly number[], from: number, to: number): number {
  let count = 0;
  for (let i = indexUpTo(xs, to); i >= 0 && (xs[i] as number) >= from; i--) if (Number.isFinite(ys[i])) count += 1;
  return count;
}

/** The smooth line of a series, at each of its points. */
export function smoothOf(points: Points, smoothing: Smoothing): number[] {
  const unbiased = withoutBias(points);
  const finiteIndexes = unbiased.ys.flatMap((y, i) => (Number.isFinite(y) ? [i] : []));
  const xs = finiteIndexes.map((i) => unbiased.xs[i] as number);
  const ys = smoothed(
    xs,
    finiteIndexes.map((i) => unbiased.ys[i] as number),
    smoothing,
  );
  return points.xs.map((x, i) => (Number.isFinite(points.ys[i]) ? between(xs, ys, x) : Number.NaN));
}

/** The value of a line at `x`; beyond its ends, the value of the end. */
function between(xs: readonly number[], ys: Float64Array, x: number): number {
  const before = indexUpTo(xs, x);
  const from = ys[Math.max(0, before)] ?? Number.NaN;
  const to = ys[before + 1];
  if (before < 0 || to === undefined) return from;
  const start = xs[before] as number;
  return from + (to - from) * ((x - start) / ((xs[before + 1] as number) - start));
}

/** The mean of several series, in at most `count` parts of the axis: all series weigh the same. */
export function meanOf(series: readonly Points[], count: number): Points {
  const unbiased = series.map(withoutBias);
  const ends = unbiased.flatMap(({ xs }) => (xs.length === 0 ? [] : [xs[0] as number, xs[xs.length - 1] as number]));
  const from = Math.min(...ends);
  const size = (Math.max(...ends) - from) / count || 1;
  const means = new Parts();
  for (const { xs, ys } of unbiased) {
    const own = new Parts();
    for (const [i, x] of xs.entries()) {
      own.add(Math.min(count - 1, Math.floor((x - from) / size)), x, ys[i] as number);
    }
    for (const [part, x, y] of own.means()) means.add(part, x, y);
  }
  const meanPoints = means.means();
  return { xs: meanPoints.map(([, x]) => x), ys: meanPoints.map(([, , y]) => y), bands: [] };
}

/** The parts of an axis, and the means of the points in each. */
class Parts {
  readonly #sums = new Map<number, { count: number; x: number; y: number }>();

  add(part: number, x: number, y: number): void {
    if (!Number.isFinite(y)) return;
    const { count, x: xs, y: ys } = this.#sums.get(part) ?? { count: 0, x: 0, y: 0 };
    this.#sums.set(part, { count: count + 1, x: xs + x, y: ys + y });
  }

  means(): [part: number, x: number, y: number][] {
    const parts = [...this.#sums].sort(([a], [b]) => a - b);
    return parts.map(([part, { count, x, y }]) => [part, x / count, y / count]);
  }
}

/** One series as a share of another one, of the same steps: band by band where there are bands, else point by point. */
export function shareOf(part: Points, whole: Points): Points {
  if (part.bands.length > 0 && whole.bands.length > 0) {
    const means = new Map(whole.bands.map((band) => [band.x_from, band.mean]));
    const both = part.bands.filter((band) => means.has(band.x_from));
    return {
      xs: both.map((band) => (band.x_from + band.x_to) / 2),
      ys: both.map((band) => ratio(band.mean, means.get(band.x_from))),
      bands: [],
    };
  }
  const values = new Map(whole.xs.map((x, i) => [x, whole.ys[i]]));
  const both = part.xs.flatMap((x, i) => (values.has(x) ? [i] : []));
  const xs = both.map((i) => part.xs[i] as number);
  return { xs, ys: both.map((i, at) => ratio(part.ys[i] as number, values.get(xs[at] as number))), bands: [] };
}

function ratio(part: number, whole: number | undefined): number {
  return whole !== undefined && whole > 0 ? part / whole : Number.NaN;
}
