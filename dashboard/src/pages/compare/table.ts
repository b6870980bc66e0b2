// The table of runs as rows and columns, before anything is drawn. Pure.

import type { Job } from "../../api/types.ts";
import { bestOf, compared, type Field, type Value } from "./fields.ts";
import type { Run } from "./runs.ts";

export interface Sort {
  readonly key: string;
  readonly isFalling: boolean;
}

export function parseSort(text: string): Sort | null {
  if (text === "") return null;
  return text.startsWith("-") ? { key: text.slice(1), isFalling: true } : { key: text, isFalling: false };
}

/** The sort parameter after a click on a column header: first the best on top, then the worst, then unsorted. */
export function nextSort(now: Sort | null, field: Field): string {
  const isFallingFirst = field.better === "more";
  const text = (isFalling: boolean): string => `${isFalling ? "-" : ""}${field.key}`;
  if (now?.key !== field.key) return text(isFallingFirst);
  return now.isFalling === isFallingFirst ? text(!isFallingFirst) : "";
}

/** Sorted runs. Without an order, or with an unknown column, they keep their order. */
export function sortedRuns(runs: readonly Run[], fields: readonly Field[], sort: Sort | null): readonly Run[] {
  const field = fields.find(({ key }) => key === sort?.key);
  if (field === undefined || sort === null) return runs;
  const order = compared(field, sort.isFalling);
  return runs.toSorted((a, b) => order(a.job, b.job));
}

/** The best value of each column, by its key. */
export function bestValues(fields: readonly Field[], jobs: readonly Job[]): ReadonlyMap<string, Value> {
  return new Map(fields.map((field) => [field.key, bestOf(field, jobs)]));
}
