// Finds the line at the pointer on a chart. Pure.

import { indexNearest, type Line, type Range } from "../../charts/lines.ts";
import { type YAxis, yRange } from "../../charts/y_range.ts";

const NEAR_PX = 12;

/** A point of a chart: x on its axis, and pixels from its upper edge. */
export interface Place {
  readonly x: number;
  readonly top: number;
  readonly height: number;
  /** The range of the axis in view. */
  readonly range: Range;
  readonly isZoomed: boolean;
}

/** The key of the line nearest to a point; null if none is near. */
export function nearestLine(
  lines: readonly Line[],
  { x, top, height, range, isZoomed }: Place,
  axis: YAxis,
): string | null {
  const scale = axis.isLog ? Math.log10 : (value: number) => value;
  const [least, greatest] = yRange(lines, range, axis, isZoomed).map(scale) as [number, number];
  let nearestKey: string | null = null;
  let nearest = NEAR_PX;
  for (const line of lines) {
    const distance = Math.abs(height * (1 - (scale(valueAt(line, x)) - least) / (greatest - least)) - top);
    if (distance < nearest) [nearestKey, nearest] = [line.key, distance];
  }
  return nearestKey;
}

/** The value of a line at `x`, between its points; NaN outside of them. */
function valueAt({ xs, ys, smooth = ys }: Line, x: number): number {
  const nearestIndex = indexNearest(xs, x);
  if (nearestIndex < 0 || x < (xs[0] as number) || x > (xs[xs.length - 1] as number)) return Number.NaN;
  const here = xs[nearestIndex] as number;
  const other = x < here ? nearestIndex - 1 : nearestIndex + 1;
  const there = xs[other];
  if (there === undefined || x === here) return smooth[nearestIndex] as number;
  const share = (x - here) / (there - here);
  return (smooth[nearestIndex] as number) * (1 - share) + (smooth[other] as number) * share;
}
