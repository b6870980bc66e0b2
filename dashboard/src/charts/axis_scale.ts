// The axes of parallel coordinates: from values to positions in pixels and back. Pure;
// `parallel.tsx` draws with them.

import { number } from "../format.ts";
import { bands, Scale } from "./scales.ts";
import { logPlaces } from "./ticks.ts";

export type AxisValue = number | string | null;

/** A part of an axis: from least to greatest, or a set of texts. */
export type Brush = { readonly from: number; readonly to: number } | { readonly texts: readonly string[] };

export interface Tick {
  readonly y: number;
  readonly text: string;
}

export interface AxisScale {
  readonly kind: "linear" | "log" | "text";
  /** The position of a value; null if the axis has none for it. */
  readonly at: (value: AxisValue) => number | null;
  readonly ticks: readonly Tick[];
  /** The brush between two positions; null if no value is there. */
  readonly between: (y: number, other: number) => Brush | null;
  /** The top and the bottom of a brush. */
  readonly stretch: (brush: Brush) => readonly [number, number] | null;
}

const FEW = 7; // with at most so many values, each has a tick
const WIDE = 20; // if the greatest value is so many times the least, the axis is logarithmic
const NEAR_PX = 10; // a text is selected within this distance

/** Whether a logarithmic axis suits these values better. It is the default; a person can change it. */
export function wantsLog(values: readonly AxisValue[]): boolean {
  const sorted = distinct(values.filter((value) => typeof value === "number"));
  const [least, next] = sorted;
  const greatest = sorted.at(-1);
  if (least === undefined || next === undefined || greatest === undefined || least <= 0) return false;
  if (greatest / least >= WIDE) return true;
  const ratio = next / least;
  return sorted.length > 2 && sorted.every((value, i) => i === 0 || isClose(value / (sorted[i - 1] as number), ratio));
}

function isClose(a: number, b: number): boolean {
  return Math.abs(a - b) < 1e-6 * Math.abs(b);
}

/** An axis from `top`, with the greatest number, to `bottom`; a flipped axis has its top below. If one value is a text, all are texts. */
export function axisScale(
  values: readonly AxisValue[],
  isLog: boolean,
  [top, bottom]: readonly [number, number],
): AxisScale {
  const numbers = values.filter((value) => typeof value === "number");
  return values.some((value) => typeof value === "string")
    ? textScale(values, top, bottom)
    : numberScale(distinct(numbers), isLog, top, bottom);
}

function distinct(values: readonly number[]): number[] {
  return [...new Set(values)].sort((a, b) => a - b);
}

function numberScale(values: readonly number[], prefersLog: boolean, top: number, bottom: number): AxisScale {
  const least = values[0] ?? 0;
  const greatest = values.at(-1) ?? 1;
  const isLog = prefersLog && least > 0;
  const room = least === greatest ? Math.abs(least) * 0.1 || 1 : 0;
  const scale = new Scale([least - room, greatest + room], [bottom, top], isLog);
  const round = isLog ? logPlaces(least, greatest) : scale.ticks(5);
  const tickValues = values.length <= FEW ? values : round;
  return {
    kind: isLog ? "log" : "linear",
    at: (value) => (typeof value === "number" ? scale.at(value) : null),
    ticks: apart(tickValues.map((value) => ({ y: scale.at(value), text: number(value, 3) }))),
    between: (y, other) => {
      const [a, b] = [scale.valueAt(clamp(y)), scale.valueAt(clamp(other))];
      return { from: Math.min(a, b), to: Math.max(a, b) };
    },
    stretch: (brush) => {
      if ("texts" in brush) return null;
      const [a, b] = [clamp(scale.at(brush.to)), clamp(scale.at(brush.from))];
      return [Math.min(a, b), Math.max(a, b)];
    },
  };

  function clamp(y: number): number {
    return Math.min(Math.max(top, bottom), Math.max(Math.min(top, bottom), y));
  }
}

function textScale(values: readonly AxisValue[], top: number, bottom: number): AxisScale {
  const texts = [...new Set(values.filter((value) => value !== null).map(String))].sort((a, b) =>
    a.localeCompare(b, "en", { numeric: true }),
  );
  const { left: start } = bands(texts.length, [bottom, top], 1); // with a gap of 1, a band's left end is its middle
  const at = (text: string): number => start(texts.indexOf(text));
  return {
    kind: "text",
    at: (value) => (value === null || !texts.includes(String(value)) ? null : at(String(value))),
    ticks: apart(texts.map((text) => ({ y: at(text), text }))),
    between: (y, other) => {
      const [from, to] = [Math.min(y, other) - NEAR_PX, Math.max(y, other) + NEAR_PX];
      const met = texts.filter((text) => at(text) >= from && at(text) <= to);
      return met.length === 0 ? null : { texts: met };
    },
    stretch: (brush) => {
      const places = "texts" in brush ? brush.texts.filter((text) => texts.includes(text)).map(at) : [];
      return places.length === 0 ? null : [Math.min(...places) - NEAR_PX, Math.max(...places) + NEAR_PX];
    },
  };
}

const LEAST_APART_PX = 13;

/** The ticks without those that would overlap an earlier one. */
function apart(ticks: readonly Tick[]): Tick[] {
  const kept: Tick[] = [];
  for (const tick of ticks) if (kept.every(({ y }) => Math.abs(y - tick.y) >= LEAST_APART_PX)) kept.push(tick);
  return kept;
}
