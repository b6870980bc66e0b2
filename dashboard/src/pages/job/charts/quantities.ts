// Formats of the quantities in a job's charts.

import { bytes, number, UNKNOWN } from "../../../format.ts";

/** A time of a step: 0.42 ms, 12 ms, 1.2 s. */
export function shortTime(seconds: number): string {
  if (!Number.isFinite(seconds)) return UNKNOWN;
  const size = Math.abs(Number(seconds.toPrecision(3))); // not 1,000 µs
  if (size >= 1 || size === 0) return `${number(seconds, 3)} s`;
  return size >= 1e-3 ? `${number(seconds * 1e3, 3)} ms` : `${number(seconds * 1e6, 3)} µs`;
}

/** A value of 0..100. */
export function percents(value: number): string {
  return withUnit(value, "%");
}

export function watts(value: number): string {
  return withUnit(value, "W");
}

export function degrees(value: number): string {
  return withUnit(value, "°C");
}

export function bytesPerSecond(value: number): string {
  return Number.isFinite(value) ? `${bytes(value)}/s` : UNKNOWN;
}

function withUnit(value: number, unit: string): string {
  return Number.isFinite(value) ? `${number(value, 3)} ${unit}` : UNKNOWN;
}

const SLOWED: readonly (readonly [bits: number, level: number])[] = [
  [0x8, 3],
  [0x20 | 0x40, 2],
  [0x4 | 0x80, 1],
];
const LEVELS = ["no", "power", "heat", "hardware"];

/**
 * Why a GPU's clock is lower than it could be, from NVML's bits (nvmlClocksEventReasons): the most serious reason, as a
 * level that can be drawn. An idle GPU and a clock that a person set are not slowdowns: their level is 0.
 */
export function slowedLevel(bits: number): number {
  if (!Number.isFinite(bits)) return Number.NaN;
  return SLOWED.find(([some]) => (bits & some) !== 0)?.[1] ?? 0;
}

export function slowedWords(level: number): string {
  return LEVELS[level] ?? "";
}
