// The curve of a group of runs: at each place the mean, the median, the spread, and how many runs have a value there. Pure.
//
// Runs with points at the same places, such as epochs, are averaged there. Points at many different places, such as
// seconds, are averaged within equal parts of the axis. Between two of its points a run has the value between them;
// before its first and after its last point, and within a gap, it has none.

import { valueAt } from "../../charts/lines.ts";
import { boxOf } from "../../charts/quartiles.ts";
import { withoutBias } from "../job/charts/means.ts";
import type { Curve } from "./curves.ts";

export interface GroupCurve {
  readonly xs: Float64Array;
  readonly mean: Float64Array;
  readonly median: Float64Array;
  /** The quartiles. */
  readonly lower: Float64Array;
  readonly upper: Float64Array;
  readonly least: Float64Array;
  readonly greatest: Float64Array;
  /** The standard deviation of the runs (of a sample); NaN of a single run. */
  readonly deviation: Float64Array;
  /** How many runs have a value. */
  readonly counts: Float64Array;
}

const MOST_PLACES = 400; // about as many as a chart has columns
const PARTS = 300;

interface Points {
  readonly xs: readonly number[];
  readonly ys: readonly number[];
}

interface Series extends Pick<Curve, "bands"> {
  readonly xs: Iterable<number>;
  readonly ys: Iterable<number>;
}

export function groupCurve(curves: readonly Series[]): GroupCurve {
  const runs = curves.map(({ xs, ys, bands }) => withoutBias({ xs: [...xs], ys: [...ys], bands }));
  const places = sharedPlaces(runs);
  if (places !== null)
    return averaged(
      places,
      runs.map((run) => places.map((x) => valueAt(run, x))),
    );
  const [from, size] = partsOf(runs);
  const middles = Array.from({ length: PARTS }, (_, part) => from + (part + 0.5) * size);
  return averaged(
    middles,
    runs.map((run) => meansOfParts(run, middles, from, size)),
  );
}

/** All places where a run has a point, ascending; null if they are too many. */
function sharedPlaces(runs: readonly Points[]): number[] | null {
  const places = new Set<number>();
  for (const { xs } of runs) {
    for (const x of xs) places.add(x);
    if (places.size > MOST_PLACES) return null;
  }
  return [...places].sort((a, b) => a - b);
}

function partsOf(runs: readonly Points[]): [from: number, size: number] {
  const ends = runs.flatMap(({ xs }) => (xs.length === 0 ? [] : [xs[0] as number, xs[xs.length - 1] as number]));
  const from = Math.min(...ends);
  return [from, (Math.max(...ends) - from) / PARTS];
}

function meansOfParts(run: Points, middles: readonly number[], from: number, size: number): number[] {
  const [sums, counts] = [new Float64Array(PARTS), new Float64Array(PARTS)];
  for (const [i, x] of run.xs.entries()) {
    const y = run.ys[i] as number;
    const part = Math.min(PARTS - 1, Math.floor((x - from) / size));
    if (!Number.isFinite(y)) continue;
    sums[part] = (sums[part] as number) + y;
    counts[part] = (counts[part] as number) + 1;
  }
  return middles.map((x, part) => (counts[part] ? (sums[part] as number) / (counts[part] as number) : valueAt(run, x)));
}

/** The figures at each place where at least one run has a value. */
function averaged(xs: readonly number[], values: readonly (readonly number[])[]): GroupCurve {
  const kept = xs.flatMap((x, i) => {
    const here = values.map((ys) => ys[i] as number).filter(Number.isFinite);
    return here.length === 0 ? [] : [{ x, ...figures(here) }];
  });
  const column = (name: keyof (typeof kept)[number]): Float64Array => Float64Array.from(kept, (row) => row[name]);
  return {
    xs: column("x"),
    mean: column("mean"),
    median: column("median"),
    lower: column("lower"),
    upper: column("upper"),
    least: column("least"),
    greatest: column("greatest"),
    deviation: column("deviation"),
    counts: column("count"),
  };
}

function figures(values: readonly number[]) {
  const count = values.length;
  const mean = values.reduce((sum, value) => sum + value, 0) / count;
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  const deviation = count > 1 ? Math.sqrt(squares / (count - 1)) : Number.NaN;
  return { ...boxOf(values), mean, deviation, count, least: Math.min(...values), greatest: Math.max(...values) };
}
