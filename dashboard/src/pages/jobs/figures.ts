// The figures of a metric: its first, best and newest value.

import { number, UNKNOWN } from "../../format.ts";
import { isBetterLower } from "../../metrics.ts";
import type { Curve } from "./curves.ts";
import type { Row } from "./row.ts";

export interface Figures {
  readonly first: number | null;
  readonly best: number | null;
  readonly last: number | null;
}

/** The metric that a row shows: the chosen one, or else the one that counts for its job. */
export function metricOf(row: Row, chosen: string): string | null {
  return chosen === "" ? row.goal_metric : chosen;
}

/** The figures of a job's curve. A metric without epochs has no curve: then those of the job. */
export function figuresOf(row: Row, metric: string | null, curve: Curve | undefined): Figures {
  const known = (curve?.y ?? []).filter((value) => value !== null);
  if (metric === null) return { first: null, best: null, last: null };
  const { best = null, last = null } = row.metrics[metric] ?? {};
  if (known.length === 0) return { first: null, best, last };
  const isLow = isBetterLower(metric, row.goal);
  return { first: known[0] ?? null, best: isLow ? Math.min(...known) : Math.max(...known), last: known.at(-1) ?? null };
}

/** The curve in words, for screen readers. */
export function inWords(metric: string, { first, best, last }: Figures): string {
  if (last === null) return `${metric}: ${UNKNOWN}`;
  return `${metric}: first ${number(first)}, best ${number(best)}, last ${number(last)}`;
}
