// Columns beside those that every job has: fields of the spec, labels, values of metrics and test results. And the values of
// all columns, as a CSV file has them. The command line has the same: `hora/render/job_columns.py`, with columns.cases.json.

import type { Row } from "./row.ts";

const OF_METRICS = ["last", "low", "high", "mean"] as const;
const KINDS = ["spec", "label", "test", ...OF_METRICS] as const;
type Kind = (typeof KINDS)[number];

/** `spec.optimizer.name`, `label.team`, `last.val_loss`, `mean.val_loss`, `test.accuracy`. */
export type FieldKey = `${Kind}.${string}`;

export type Value = string | number | boolean | null;

/** The parts of a column's id; null for other ids. */
export function fieldOf(id: string): { readonly kind: Kind; readonly name: string } | null {
  const dot = id.indexOf(".");
  const kind = KINDS.find((known) => known === id.slice(0, dot));
  const name = id.slice(dot + 1);
  return kind === undefined || name === "" || id.length > 300 ? null : { kind, name };
}

/** The value of such a column; null if the job has none. */
export function fieldValue(row: Row, id: string): Value {
  const field = fieldOf(id);
  if (field === null) return null;
  const { kind, name } = field;
  if (kind === "spec") return inSpec(row.spec, name);
  if (kind === "test") return row.tests[name] ?? null;
  if (kind !== "label") return ownOf(row.metrics, name)?.[kind] ?? null;
  return row.labels.find((label) => label.startsWith(`${name}:`))?.slice(name.length + 1) ?? null;
}

const SHORT: ReadonlySet<string> = new Set(["name", "source"]); // what a text stands for: `model: lenet5`

/** A field of the spec by its path. Names of `params` may have dots: the longest name that fits counts. */
function inSpec(value: unknown, path: string): Value {
  if (typeof value === "string" && SHORT.has(path)) return value;
  if (typeof value !== "object" || value === null || Array.isArray(value)) return null;
  const whole = ownOf(value as Record<string, unknown>, path);
  if (whole !== undefined) return plain(whole);
  for (let dot = path.lastIndexOf("."); dot > 0; dot = path.lastIndexOf(".", dot - 1)) {
    const part = ownOf(value as Record<string, unknown>, path.slice(0, dot));
    if (part !== undefined) return inSpec(part, path.slice(dot + 1));
  }
  return null;
}

function plain(value: unknown): Value {
  if (value === null || ["string", "number", "boolean"].includes(typeof value)) return value as Value;
  return JSON.stringify(value);
}

function ownOf<T>(values: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(values, name) ? values[name] : undefined;
}

/** The paths of all fields of a spec; of `params` and `env` each name. Lists count as one value. */
export function pathsOf(spec: Readonly<Record<string, unknown>>, prefix = ""): string[] {
  return Object.entries(spec).flatMap(([name, value]) =>
    typeof value === "object" && value !== null && !Array.isArray(value)
      ? pathsOf(value as Record<string, unknown>, `${prefix}${name}.`)
      : [prefix + name],
  );
}

/** What the loaded jobs offer as columns. */
export function fieldKeys(rows: readonly Row[]): FieldKey[] {
  const keys = new Set<FieldKey>();
  for (const row of rows) {
    for (const name of Object.keys(row.metrics)) for (const kind of OF_METRICS) keys.add(`${kind}.${name}`);
    for (const name of Object.keys(row.tests)) keys.add(`test.${name}`);
    for (const label of row.labels) keys.add(`label.${label.slice(0, label.indexOf(":"))}`);
  }
  // Specs have the same fields, except for what people name: those of the first jobs are enough for the rest.
  for (const row of rows.slice(0, 500)) for (const path of pathsOf(row.spec)) keys.add(`spec.${path}`);
  return [...keys].filter((key) => fieldOf(key) !== null).sort();
}
