// The figures of a curve: its first, best and newest value.

import { number, UNKNOWN } from "../../format.ts";

export interface Figures {
  readonly first: number | null;
  readonly best: number | null;
  readonly last: number | null;
}

/** Whether the least value of a metric is its best: true for losses, errors and times, but not for rates. */
export function isBestLeast(metric: string): boolean {
  return /loss|error|perplexity/.test(metric) || (/_(s|ms)$/.test(metric) && !metric.endsWith("per_s"));
}

export function figuresOf(y: readonly (number | null)[], metric: string): Figures {
  const known = y.filter((value) => value !== null);
  const best = known.length === 0 ? null : isBestLeast(metric) ? Math.min(...known) : Math.max(...known);
  return { first: known[0] ?? null, best, last: known.at(-1) ?? null };
}

/** The curve in words, for screen readers. */
export function inWords(metric: string, { first, best, last }: Figures): string {
  if (last === null) return `${metric}: ${UNKNOWN}`;
  return `${metric}: first ${number(first)}, best ${number(best)}, last ${number(last)}`;
}
