// The fields to compare runs by: their settings, as one flat list, and their results.
// Pure; the table, the parallel coordinates and the choice of the best runs read it.

import type { Job } from "../../api/types.ts";
import { commandText, duration, number, secondsBetween, short, words } from "../../format.ts";
import {
  type Goal,
  goalMetricOf,
  goalOf,
  inOrder,
  isBetterLower,
  isScript,
  metricsOf,
  metricText,
} from "../../metrics.ts";
import { byValue } from "../../order.ts";

export type Value = number | string | boolean | null;

/** A setting or a result to compare runs by. */
export interface Field {
  /** Without commas and colons, which separate fields in the address. */
  readonly key: string;
  readonly label: string;
  readonly isResult: boolean;
  /** Whether it is a value of the metric that counts for one of the runs. */
  readonly isGoal?: boolean;
  /** Whether more or less is better, if either is. */
  readonly better?: "more" | "less";
  readonly valueIn: (job: Job) => Value;
  readonly format: (value: Value) => string;
}

const LABELS: Readonly<Record<string, string>> = {
  gpus: "GPUs",
  min_gpus: "minimum GPUs",
  "dataset.source": "dataset",
  "model.name": "model",
  "plan.global_batch": "global batch",
  "plan.per_gpu_batch": "batch per GPU",
  "plan.learning_rate": "rate used",
};

// These stand first in a table; the others follow in the order of the spec.
const FIRST = ["dataset.source", "model.name", "gpus", "batch_size", "learning_rate", "epochs", "optimizer"];

const OWN_AFTER = FIRST.indexOf("model.name") + 0.5; // where a script's own settings stand

// A name identifies a run and is not a setting.
const NO_SETTINGS: ReadonlySet<string> = new Set(["name"]);

// A plain name, or an object with a name and fields of that name.
const BY_NAME = ["optimizer", "schedule"];

/** Whether a setting is the script's own, with a name that a person chose. */
function isOwn(key: string): boolean {
  return key.startsWith("params.") || key.startsWith("env.");
}

export function labelOf(key: string): string {
  if (isOwn(key)) return key;
  return (
    LABELS[key] ??
    words(
      key
        .replace(/^plan\./, "")
        .replace(/^labels\./, "label ")
        .replaceAll(".", " "),
    )
  );
}

export function valueText(value: Value): string {
  if (value === null) return "–";
  if (typeof value === "number") return Number.isInteger(value) ? String(value) : number(value, 6);
  return typeof value === "boolean" ? (value ? "yes" : "no") : value;
}

/** An object's fields under dotted names; lists are texts, and objects without fields are left out. */
export function flattened(object: Readonly<Record<string, unknown>>, prefix = ""): Map<string, Value> {
  const flat = new Map<string, Value>();
  for (const [name, value] of Object.entries(object)) {
    const key = `${prefix}${name}`;
    if (typeof value !== "object" || value === null) flat.set(key, value as Value);
    else if (Array.isArray(value)) flat.set(key, listText(value));
    else for (const [inner, each] of flattened(value as Record<string, unknown>, `${key}.`)) flat.set(inner, each);
  }
  return flat;
}

function listText(list: readonly unknown[]): string | null {
  if (list.length === 0) return null;
  return list.some((item) => typeof item === "object" && item !== null) ? JSON.stringify(list) : list.join(", ");
}

const settings = new WeakMap<Job, ReadonlyMap<string, Value>>();

/** The settings of a job: its spec, then the figures of its plan. */
export function settingsOf(job: Job): ReadonlyMap<string, Value> {
  const made = settings.get(job);
  if (made !== undefined) return made;
  const found = flattened({ ...job.spec, ...(job.labels ? { labels: job.labels } : {}) });
  for (const name of NO_SETTINGS) found.delete(name);
  for (const name of BY_NAME) {
    const value = found.get(`${name}.name`);
    if (value !== undefined) found.set(name, value);
    found.delete(`${name}.name`);
  }
  if (Array.isArray(job.spec["command"])) found.set("command", commandText(job.spec["command"] as string[]));
  for (const [name, value] of flattened(job.plan, "plan.")) found.set(name, value);
  settings.set(job, found);
  return found;
}

export interface Settings {
  /** Those that differ. */
  readonly differing: readonly Field[];
  /** Those that are the same in all runs, as texts. */
  readonly shared: readonly { readonly label: string; readonly text: string }[];
}

/** The settings that differ among jobs. Of settings with equal values in every job, only the first is kept. */
export function settingsAmong(jobs: readonly Job[]): Settings {
  const jobSettings = jobs.map(settingsOf);
  const keys = [...new Set(jobSettings.flatMap((settings) => [...settings.keys()]))].sort((a, b) => rank(a) - rank(b));
  const differing: Field[] = [];
  const shared: { label: string; text: string }[] = [];
  const seenColumns = new Set<string>();
  for (const key of keys) {
    const values = jobSettings.map((settings) => settings.get(key) ?? null);
    const isSame = values.every((value) => value === values[0]);
    const column = `${JSON.stringify(values)}${isSame ? labelOf(key) : ""}`;
    if (seenColumns.has(column)) continue;
    seenColumns.add(column);
    if (!isSame) differing.push(setting(key));
    else if (values[0] !== null && values[0] !== undefined)
      shared.push({ label: labelOf(key), text: valueText(values[0]) });
  }
  return { differing, shared };
}

function rank(key: string): number {
  const place = FIRST.indexOf(key);
  if (place >= 0) return place;
  if (isOwn(key)) return OWN_AFTER;
  return key.startsWith("plan.") ? FIRST.length + 1 : FIRST.length;
}

function setting(key: string): Field {
  return {
    key: safeKey(key),
    label: labelOf(key),
    isResult: false,
    valueIn: (job) => settingsOf(job).get(key) ?? null,
    format: key === "code" ? (value) => valueText(value).slice(0, 12) : valueText,
  };
}

/** The setting with this key, as it is in the address. */
export function fieldOf(safe: string): Field {
  const key = safe.replace(/%2[5C]|%3A/g, decodeURIComponent);
  return setting(key);
}

function safeKey(key: string): string {
  return key.replace(/[%,:]/g, encodeURIComponent);
}

/** A figure of a job: from its summary, or while it runs from its newest progress. */
function figure(job: Job, name: string): number | null {
  const { metrics, samples_per_s } = job.progress as {
    metrics?: Readonly<Record<string, unknown>>;
    samples_per_s?: unknown;
  };
  const value = job.summary?.[name] ?? (name === "train_samples_per_s" ? samples_per_s : metrics?.[name]);
  return typeof value === "number" ? value : null;
}

const numberOrNull = (value: Value): number | null => (typeof value === "number" ? value : null);

function result(key: string, label: string, better: "more" | "less" | undefined, format = number): Field {
  const of = (job: Job): number | null => figure(job, key);
  return {
    key,
    label,
    isResult: true,
    ...(better ? { better } : {}),
    valueIn: of,
    format: (value) => format(numberOrNull(value)),
  };
}

/** The results of every job, in the order of the table. */
export const RESULTS: readonly Field[] = [
  result("val_accuracy", "val accuracy", "more"),
  result("val_loss", "val loss", "less"),
  result("test_accuracy", "test accuracy", "more"),
  result("test_loss", "test loss", "less"),
  result("train_samples_per_s", "samples/s", "more", short),
  result("wall_s", "training", "less", duration),
  result("setup_s", "set-up", undefined, duration),
  result("best_epoch", "best epoch", undefined),
  result("epochs_run", "epochs run", undefined),
  result("parameters", "parameters", undefined, short),
  {
    key: "duration",
    label: "duration",
    isResult: true,
    valueIn: (job) => secondsBetween(job.started_at, job.ended_at),
    format: (value) => duration(numberOrNull(value)),
  },
];

/** The results that at least one of the jobs has: first the metrics that count, then those of every job, then others. */
export function resultsAmong(jobs: readonly Job[]): readonly Field[] {
  const goals = new Set(jobs.map(goalName));
  const names = new Set(jobs.flatMap((job) => Object.keys(metricsOf(job))));
  const metrics = inOrder(names, null)
    .filter((name) => !RESULTS.some(({ key }) => key === name))
    .map((name) => bestValue(name, jobs, goals.has(name)));
  const usual = RESULTS.map((field) => (goals.has(field.key) ? { ...field, isGoal: true } : field));
  const of = [...metrics.filter(({ isGoal }) => isGoal), ...usual, ...metrics.filter(({ isGoal }) => !isGoal)];
  return of.filter((field) => jobs.some((job) => field.valueIn(job) !== null));
}

const SPEEDS: readonly string[] = ["train_samples_per_s", "wall_s"];
const OF_VALIDATION: readonly string[] = ["val_loss", "val_accuracy"];

/** The results with an axis by default: the speed, and what counts; the usual pair if nothing else counts. */
export function resultsAtFirst(results: readonly Field[]): readonly Field[] {
  const hasOther = results.some(({ key, isGoal }) => isGoal && !OF_VALIDATION.includes(key));
  return results.filter(
    ({ key, isGoal }) => isGoal || SPEEDS.includes(key) || (!hasOther && OF_VALIDATION.includes(key)),
  );
}

/** The best value of a metric that jobs report. */
function bestValue(name: string, jobs: readonly Job[], isGoal: boolean): Field {
  const goal = jobs.map(({ spec }): Goal | null => goalOf(spec)).find((each) => each?.metric === name) ?? null;
  return {
    key: safeKey(`metrics.${name}`),
    label: metricText(name),
    isResult: true,
    isGoal,
    better: isBetterLower(name, goal) ? "less" : "more",
    valueIn: (job) => metricsOf(job)[name]?.best ?? null,
    format: (value) => number(numberOrNull(value)),
  };
}

/** The last values of the metrics that at least one of the jobs reports. */
export function lastAmong(jobs: readonly Job[]): readonly Field[] {
  const names = new Set(jobs.flatMap((job) => Object.keys(metricsOf(job))));
  return inOrder(names, null).map((name) => ({
    ...bestValue(name, jobs, false),
    key: safeKey(`last.${name}`),
    label: `last ${metricText(name)}`,
    valueIn: (job) => metricsOf(job)[name]?.last ?? null,
  }));
}

/** The name of the metric that counts for a job. */
export function goalName(job: Job): string | null {
  return goalMetricOf(job.spec, Object.keys(metricsOf(job)));
}

/** The value that a job is judged by: of the weights that it kept, or the best one. */
export function goalValue(job: Job): number | null {
  const name = goalName(job) ?? "";
  return figure(job, isScript(job.spec) ? "" : name) ?? metricsOf(job)[name]?.best ?? null;
}

/** The best value of a field among jobs; null if none is better than another. */
export function bestOf(field: Field, jobs: readonly Job[]): Value {
  if (field.better === undefined) return null;
  const values = jobs.map(field.valueIn).filter((value) => typeof value === "number");
  if (new Set(values).size < 2) return null;
  return field.better === "more" ? Math.max(...values) : Math.min(...values);
}

/** Compares jobs by a field. Jobs without a value come last in both directions. */
export function compared(field: Field, isFalling: boolean): (a: Job, b: Job) => number {
  return (a, b) => byValue(field.valueIn(a), field.valueIn(b), isFalling);
}
