// Ticks of axes, and with how many digits they are written.

import { bytes, duration, number } from "../format.ts";
import { fromLog } from "./lines.ts";

/** The unit of an axis: plain numbers in tens, bytes by powers of two, seconds with minutes, hours and days. */
export type Unit = "tens" | "bytes" | "seconds";

const HOUR_S = 3600;
const DAY_S = 86_400;
const SECONDS = [
  ...[1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800],
  ...[1, 2, 3, 6, 12].map((hours) => hours * HOUR_S),
  ...[1, 2, 7, 14, 28, 56, 112, 365].map((days) => days * DAY_S),
];

/** The possible distances between ticks, ascending. */
export function distances(unit: Unit): number[] {
  if (unit === "bytes") return Array.from({ length: 61 }, (_, power) => 2 ** power);
  return unit === "seconds" ? [...roundNumbers(-6, 0), ...SECONDS] : roundNumbers(-15, 18);
}

/** 1, 2 and 5 times each power of ten. */
function roundNumbers(from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, i) => [1, 2, 5].map((digit) => Number(`${digit}e${from + i}`))).flat();
}

/** What to divide values by to draw their axis: a power of ten for numbers that uPlot has no ticks for, else 1. */
export function axisUnit(least: number, greatest: number): number {
  const size = Math.max(Math.abs(least), Math.abs(greatest));
  return size === 0 || (size >= 1e-9 && size < 1e15) ? 1 : Number(`1e${Math.floor(Math.log10(size))}`);
}

const MOST = 8; // ticks of a logarithmic axis
const NEAREST = 1 / 12; // of the axis, between two ticks: a line of text

/** The ticks of a logarithmic axis: powers of ten, with 2 and 5 or all digits if there is room. */
export function logPlaces(from: number, to: number): number[] {
  const [first, last] = [Math.floor(Math.log10(from)), Math.ceil(Math.log10(to))];
  const choices = [[1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 2, 5], [1]].map((digits) => decadeFigures(first, last, 1, digits));
  const sparse = Array.from({ length: last - first + 1 }, (_, i) => decadeFigures(first, last, i + 1, [1]));
  const inside = [...choices, ...sparse].map((all) => all.filter((place) => place >= from && place <= to));
  const found = inside.find((all) => all.length <= MOST && areApart(all, Math.log(to / from) * NEAREST)) ?? [];
  return found.length > 2 ? found : linearPlaces(from, to);
}

function areApart(ascending: readonly number[], distance: number): boolean {
  return ascending.every((place, i) => i === 0 || Math.log(place / (ascending[i - 1] ?? 0)) >= distance);
}

/** The same of an axis of powers of ten. */
export function powerPlaces(from: number, to: number): number[] {
  return logPlaces(10 ** from, 10 ** to).map(Math.log10);
}

function decadeFigures(first: number, last: number, each: number, digits: readonly number[]): number[] {
  const powers = Array.from({ length: Math.ceil((last - first + 1) / each) }, (_, i) => first + i * each);
  return powers.flatMap((power) => digits.map((digit) => Number(`${digit}e${power}`)));
}

/** Ticks of a range within one decade. */
function linearPlaces(from: number, to: number): number[] {
  return roundPlaces(from, to, "tens", MOST).places;
}

/** At most about `most` round ticks at equal distances. */
export function roundPlaces(
  from: number,
  to: number,
  unit: Unit,
  most: number,
): { readonly places: number[]; readonly distance: number } {
  const distance = distances(unit).find((one) => (to - from) / one <= most) ?? to - from;
  const first = Math.ceil(from / distance);
  const places = Array.from({ length: Math.floor(to / distance) - first + 1 }, (_, i) =>
    Number(((first + i) * distance).toPrecision(12)),
  );
  return { places, distance };
}

/** The format of single values. */
export function formatOf(unit: Unit): (value: number) => string {
  return { tens: number, bytes, seconds: duration }[unit];
}

/** The text of a tick, with enough digits to differ from a neighbour at this distance. */
export function figureAt(value: number, distance: number, unit: Unit = "tens"): string {
  if (unit === "bytes") return bytes(value);
  if (unit === "seconds") return timeAt(value, distance);
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-4 || size >= 1e9) ? exponential(value, distance) : decimal(value, distance);
}

/** The text of a place on an axis of powers of ten, with enough digits to differ from a place at this distance. */
export function logText(power: number, distance: number, unit: Unit): string {
  const value = fromLog(power);
  return figureAt(value, value * Math.min(0.1, distance * Math.LN10), unit);
}

const UNITS = [
  [DAY_S, "d"],
  [HOUR_S, "h"],
  [60, "min"],
] as const;

/** A length of time in all of the units that it takes: 1 h 2 min, 5 min 12.5 s. */
function timeAt(seconds: number, distance: number): string {
  const parts: string[] = [];
  let restSeconds = Math.abs(seconds) + Math.min(distance, 1) * 1e-6; // against rounding down
  for (const [size, unit] of UNITS) {
    const count = Math.floor(restSeconds / size);
    if (count > 0) parts.push(`${count} ${unit}`);
    restSeconds -= count * size;
    if (distance >= size) restSeconds = 0;
  }
  if (restSeconds >= distance / 2 || parts.length === 0) parts.push(`${decimal(restSeconds, distance)} s`);
  return (seconds < 0 ? "-" : "") + parts.join(" ");
}

function exponential(value: number, distance: number): string {
  const places = Math.floor(Math.log10(Math.abs(value)) + 1e-9) - Math.floor(Math.log10(distance) + 1e-9);
  return value.toExponential(Math.min(12, Math.max(0, places))).replace(/\.?0+e/, "e");
}

function decimal(value: number, distance: number): string {
  const places = Math.min(12, Math.max(0, -Math.floor(Math.log10(distance) + 1e-9)));
  return withPlaces(places).format(value);
}

const formats = new Map<number, Intl.NumberFormat>(); // making one takes longer than drawing a line

function withPlaces(places: number): Intl.NumberFormat {
  let format = formats.get(places);
  if (format === undefined) {
    format = new Intl.NumberFormat("en", { minimumFractionDigits: places, maximumFractionDigits: places });
    formats.set(places, format);
  }
  return format;
}
