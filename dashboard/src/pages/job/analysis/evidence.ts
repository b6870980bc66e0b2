// Formats the figures behind a finding or advice. Used by `evidence.tsx` and `advice.tsx`.

import { bytes, duration, number, percent, words } from "../../../format.ts";

type Value = number | string | boolean | null;

/** A figure in the unit at the end of its name. */
export function figureOf(name: string, value: unknown): string {
  if (value === null || value === undefined) return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "number") return typeof value === "string" ? value : JSON.stringify(value);
  if (/_per_s$/.test(name)) return number(value);
  if (/_s$/.test(name)) return Math.abs(value) < 1 ? `${number(value * 1000, 3)} ms` : duration(value);
  if (/_bytes$/.test(name)) return bytes(value);
  if (/_percent$/.test(name)) return `${number(value, 3)} %`;
  if (/(^|_)share$/.test(name)) return percent(value, 1);
  return number(value);
}

/** The name of a figure in words, without its unit. */
export function nameOf(name: string): string {
  return words(name.replace(/_per_s$/, " per s").replace(/_(s|bytes|percent)$/, ""));
}

/** A change to a spec as lines: early_stopping.patience: 3. */
export function flatChange(change: Readonly<Record<string, unknown>>, path = ""): [string, string][] {
  return Object.entries(change).flatMap(([name, value]): [string, string][] => {
    const isNested = typeof value === "object" && value !== null && !Array.isArray(value);
    if (isNested) return flatChange(value as Record<string, unknown>, `${path}${name}.`);
    return [[`${path}${name}`, JSON.stringify(value as Value)]];
  });
}
