// The points of a series: attempts joined to one line, and detail merged into coarse points.

import { indexUpTo, type Range } from "../../../charts/lines.ts";

/** Figures of all points of a part of a series, including those that the answer leaves out. */
export interface Band {
  readonly x_from: number;
  readonly x_to: number;
  readonly count: number;
  readonly mean: number;
}

export interface Points {
  /** Ascending. */
  readonly xs: readonly number[];
  /** As many as `xs`; NaN is a gap. */
  readonly ys: readonly number[];
  readonly bands: readonly Band[];
}

interface Series {
  readonly x: readonly number[];
  readonly y: readonly (number | null)[];
  readonly bands: readonly Band[];
}

export function pointsOf({ x, y, bands }: Series): Points {
  return { xs: x, ys: y.map((value) => value ?? Number.NaN), bands };
}

/**
 * The attempts of a rank as one line, with a gap between each two. Points of an attempt beyond the start of a later
 * one are left out, because the later attempt repeats their steps.
 */
export function joined(attempts: readonly Points[]): Points {
  const xs = attempts.flatMap((one, i) => (i === 0 || one.xs[0] === undefined ? one.xs : [one.xs[0], ...one.xs]));
  const ys = attempts.flatMap((one, i) => (i === 0 || one.xs.length === 0 ? one.ys : [Number.NaN, ...one.ys]));
  const keptIndexes: number[] = [];
  let least = Number.POSITIVE_INFINITY;
  for (let i = xs.length - 1; i >= 0; i--) {
    const x = xs[i] as number;
    if (x > least) continue;
    least = x;
    keptIndexes.push(i);
  }
  keptIndexes.reverse();
  const bands = attempts.flatMap((one) => one.bands).toSorted((a, b) => a.x_from - b.x_from);
  return { xs: keptIndexes.map((i) => xs[i] as number), ys: keptIndexes.map((i) => ys[i] as number), bands };
}

/** `detail` within a range, and the coarse points outside of it. */
export function spliced(coarse: Points, detail: Points, [from, to]: Range): Points {
  const before = coarse.xs.findLastIndex((x) => x < from) + 1;
  const behind = indexUpTo(coarse.xs, to) + 1;
  const isAround = ({ x_from, x_to }: Band): boolean => x_to < from || x_from > to;
  return {
    xs: [...coarse.xs.slice(0, before), ...detail.xs, ...coarse.xs.slice(behind)],
    ys: [...coarse.ys.slice(0, before), ...detail.ys, ...coarse.ys.slice(behind)],
    bands: [...coarse.bands.filter(isAround), ...detail.bands].toSorted((a, b) => a.x_from - b.x_from),
  };
}
