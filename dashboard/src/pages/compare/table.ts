// The table of runs as rows and columns, before anything is drawn. Pure.

import type { Job } from "../../api/types.ts";
import { csvLine } from "../../csv.ts";
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

export interface Difference {
  readonly text: string;
  /** Null if neither is better. */
  readonly isBetter: boolean | null;
}

/** How far a result is from that of the baseline; null where one of them has none. */
export function differenceFrom(
  baseline: Job,
  job: Job,
  { isResult, better, valueIn, format }: Field,
): Difference | null {
  const [from, to] = [valueIn(baseline), valueIn(job)];
  if (!isResult || typeof from !== "number" || typeof to !== "number") return null;
  const difference = to - from;
  const isBetter = better === undefined || difference === 0 ? null : difference > 0 === (better === "more");
  return { text: `${difference < 0 ? "" : difference > 0 ? "+" : "±"}${format(difference)}`, isBetter };
}

/** The table as a CSV file, with exact values. */
export function csvOfRuns(runs: readonly Run[], fields: readonly Field[]): string {
  const head = ["run", "id", "name", "status", ...fields.map(({ label }) => label)];
  const rows = runs.map(({ number, id, job }) => [
    ...[number, id, job.name, job.status],
    ...fields.map(({ valueIn }) => valueIn(job)),
  ]);
  return `\ufeff${[head, ...rows].map(csvLine).join("")}`; // with the mark by which Excel knows UTF-8
}
