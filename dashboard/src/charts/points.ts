// Figures with their intervals, for charts of bars and points, and their axes. Pure.

import { rounded, Scale } from "./scales.ts";
import { figureAt } from "./ticks.ts";

/** A figure with its 95 % confidence interval, which is null where it is unknown, as with a single repeat. */
export interface Estimate {
  readonly value: number;
  readonly low: number | null;
  readonly high: number | null;
}

export interface Axis {
  readonly at: (value: number) => number;
  readonly ticks: readonly { readonly at: number; readonly text: string }[];
}

const WIDEST = 2; // times the greatest figure: intervals of two repeats would make the figures too small to see

/** The least and the greatest end of the estimates' intervals. No figure can be negative. */
export function reachOf(estimates: readonly Estimate[]): readonly [number, number] {
  if (estimates.length === 0) return [0, 1];
  const most = WIDEST * Math.max(...estimates.map(({ value }) => value));
  const greatest = Math.min(most, Math.max(...estimates.map(({ value, high }) => high ?? value)));
  return [Math.min(...estimates.map(({ value, low }) => Math.max(0, low ?? value))), greatest];
}

interface Ends {
  readonly isFromZero: boolean;
  /** No value is greater. */
  readonly maximum?: number | undefined;
}

/**
 * An axis of values over a range of pixels; `isFromZero` for bars, as their length shows the value: zero is on the axis.
 * Values beyond are drawn at the end.
 */
export function valueAxis(
  [least, greatest]: readonly [number, number],
  { isFromZero, maximum = Number.POSITIVE_INFINITY }: Ends,
  range: readonly [number, number],
  format: (value: number) => string,
): Axis {
  const room = greatest > least ? (greatest - least) * 0.08 : Math.abs(greatest) * 0.1 || 1;
  const below = isFromZero && least < 0 ? least - room : 0;
  const from = isFromZero ? below : Math.max(0, least - room);
  const most = Math.min(greatest + room, maximum);
  const to = Math.max(isFromZero ? Math.max(0, most) : most, from + 1e-12);
  const scale = new Scale(rounded([from, to], 5), range);
  const [start, end] = [Math.min(...range), Math.max(...range)];
  const at = (value: number): number => Math.min(end, Math.max(start, scale.at(value)));
  const places = scale.ticks(5);
  const texts = tickTexts(places, format);
  return { at, ticks: places.map((value, i) => ({ at: at(value), text: texts[i] as string })) };
}

/** Ticks as the figures are written, or with more digits where those would be equal. */
function tickTexts(places: readonly number[], format: (value: number) => string): string[] {
  const texts = places.map(format);
  const [first = 0, second = first] = places;
  return new Set(texts).size === texts.length ? texts : places.map((value) => figureAt(value, second - first));
}
