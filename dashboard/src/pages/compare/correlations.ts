// How a result goes with each setting over the runs: Spearman's rank correlation, which needs no straight line. Pure.

import type { Job } from "../../api/types.ts";
import { byValue } from "../../order.ts";
import type { Field, Value } from "./fields.ts";

export interface Correlation {
  /** The key of the setting. */
  readonly key: string;
  /** A text among the values of a setting counts as a setting of its own: whether a run has it. */
  readonly label: string;
  /** From -1 to 1. */
  readonly value: number;
  /** How many runs have both values. */
  readonly count: number;
}

const FEWEST = 4; // runs
const MOST_TEXTS = 6; // of one setting; more are names and no choices

/** The strongest first. Settings with too few runs, or with one value only, are left out. */
export function correlations(settings: readonly Field[], result: Field, jobs: readonly Job[]): Correlation[] {
  return settings
    .filter(({ key }) => key !== result.key)
    .flatMap(({ key, label, valueIn, format }) => {
      const pairs = jobs.map((job) => [valueIn(job), result.valueIn(job)] as const);
      const known = pairs.filter((pair): pair is [Value, number] => pair[0] !== null && typeof pair[1] === "number");
      return columnsOf(known.map(([value]) => value)).map(([value, column]) => ({
        key,
        label: value === null ? label : `${label}: ${format(value)}`,
        value: spearman(
          column,
          known.map(([, y]) => y),
        ),
        count: known.length,
      }));
    })
    .filter(({ value, count }) => count >= FEWEST && Number.isFinite(value))
    .sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
}

/** The values as numbers: themselves, or of each text whether a run has it. The first of two texts says nothing more. */
function columnsOf(values: readonly Value[]): [text: Value, column: readonly number[]][] {
  if (values.every((value) => typeof value === "number")) return [[null, values]];
  const texts = [...new Set(values)].sort((a, b) => byValue(a, b, false));
  if (texts.length > MOST_TEXTS) return [];
  return texts.slice(texts.length === 2 ? 1 : 0).map((text) => [text, values.map((value) => Number(value === text))]);
}

/** NaN if all values of one side are equal. */
export function spearman(xs: readonly number[], ys: readonly number[]): number {
  const [a, b] = [ranked(xs), ranked(ys)];
  const sumOf = (one: readonly number[], other: readonly number[]): number =>
    one.reduce((sum, value, i) => sum + value * (other[i] as number), 0);
  return sumOf(a, b) / Math.sqrt(sumOf(a, a) * sumOf(b, b));
}

/** The ranks around their mean. Equal values share the mean of their ranks. */
function ranked(values: readonly number[]): number[] {
  const sorted = values.toSorted((a, b) => a - b);
  return values.map((value) => (sorted.indexOf(value) + sorted.lastIndexOf(value) + 1 - values.length) / 2);
}
