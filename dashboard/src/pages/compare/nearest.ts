// Which run's line the pointer is at on a chart. Pure.

import { indexNearest, type Line, padded, type Range, yExtent } from "../../charts/lines.ts";

const NEAR_PX = 12;

/** A place on a chart: on its axis, and in pixels from its upper edge. */
export interface Place {
  readonly x: number;
  readonly top: number;
  readonly height: number;
  /** The stretch of the axis that is in view. */
  readonly range: Range;
}

/** The key of the line that passes nearest to a place; null where none passes near. */
export function nearestLine(lines: readonly Line[], { x, top, height, range }: Place, isLog: boolean): string | null {
  const extent = yExtent(lines, range, isLog ? 0 : undefined);
  if (extent === null) return null;
  const scale = isLog ? Math.log10 : (value: number) => value;
  const [least, greatest] = padded(extent, isLog).map(scale) as [number, number];
  let nearestKey: string | null = null;
  let nearest = NEAR_PX;
  for (const line of lines) {
    const distance = Math.abs(height * (1 - (scale(valueAt(line, x)) - least) / (greatest - least)) - top);
    if (distance < nearest) [nearestKey, nearest] = [line.key, distance];
  }
  return nearestKey;
}

/** The height of a line at a place between its points; NaN outside of them. */
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
