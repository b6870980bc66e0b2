// How far the y axis of a chart reaches. Pure; used by the canvas, the export, and the search for the nearest line.

import { indexUpTo, type Line, padded, type Range, yExtent } from "./lines.ts";
import { boxOf } from "./quartiles.ts";

export interface YAxis {
  readonly isLog?: boolean | undefined;
  /** The axis contains at least these values. */
  readonly yFrom?: number | undefined;
  readonly yTo?: number | undefined;
  /** The values are shares such as an accuracy: none is above 1. */
  readonly isShare?: boolean | undefined;
  /** The ends that a person zoomed to. */
  readonly ends?: Range | undefined;
  /** A person wants no room for outliers. */
  readonly isCropped?: boolean | undefined;
}

/**
 * The range of the axis for the points in a range of x. No point is cut, unless a person wants that. An axis of values that are not negative has no
 * room below 0, one of shares none above 1. If such an end is near, the axis reaches it, unless a person has zoomed.
 */
export function yRange(lines: readonly Line[], range: Range, axis: YAxis, isZoomed: boolean): Range {
  const { isLog = false, yFrom, yTo, isShare = false } = axis;
  if (axis.ends !== undefined && !(isLog && axis.ends[0] <= 0)) return axis.ends;
  const whole = yExtent(lines, range, isLog ? 0 : undefined);
  const extent =
    (axis.isCropped && whole ? cropped(lines, range, whole, isLog) : whole) ??
    (isLog ? [0.1, 1] : [yFrom ?? 0, yTo ?? 1]);
  if (isLog) return padded(extent, isLog);
  const ends: Range = [Math.min(yFrom ?? extent[0], extent[0]), Math.max(yTo ?? extent[1], extent[1])];
  const [least, greatest] = padded(ends, isLog);
  const size = ends[1] - ends[0];
  const isNear = (distance: number): boolean => !isZoomed && distance <= size;
  const from = ends[0] < 0 ? least : isNear(ends[0]) ? 0 : Math.max(0, least);
  const to = !isShare || ends[1] > 1 ? greatest : isNear(1 - ends[1]) ? 1 : Math.min(1, greatest);
  return [yFrom === undefined ? from : ends[0], yTo === undefined ? to : ends[1]];
}

/** The values in view without outliers: those that are far below the lower quartile, or far above the upper one. */
function cropped(lines: readonly Line[], [from, to]: Range, whole: Range, isLog: boolean): Range {
  const values: number[] = [];
  for (const { xs, ys } of lines) {
    const end = indexUpTo(xs, to);
    for (let i = end; i >= 0 && (xs[i] as number) >= from; i--) {
      const y = isLog ? Math.log10(ys[i] as number) : (ys[i] as number);
      if (Number.isFinite(y)) values.push(y);
    }
  }
  const { low, high, lower, upper } = boxOf(values);
  if (!(upper > lower)) return whole;
  return isLog ? [10 ** low, 10 ** high] : [low, high];
}
