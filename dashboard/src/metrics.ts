// Which metric says how good a job is, and which of its values are better. The same rules as in
// jobs/model/goals.py: metrics.cases.json is checked against both. And the values of a job's metrics. Pure; used by
// lists, charts and tables.

import type { Job } from "./api/types.ts";
import { words } from "./format.ts";

/** The last and the best value of each metric, by name. */
export type Metrics = Job["metrics"];

/** The goal of a spec. Without a mode its name decides. */
export interface Goal {
  readonly metric: string;
  readonly mode?: "min" | "max" | null;
}

// The last word of the name, or all of it: val_loss, MAE, test_rmse, wer.
const LOWER =
  /(^|[_./:@-])(loss|cost|nll|bce|kl|div|divergence|crossentropy|cross_entropy|mae|mse|rmse|mape|msle|rmsle|error|err|errors|error_rate|err_rate|perplexity|ppl|wer|cer|fid|bpc|bpd|eer|regret|latency|damaged)$/i;
const SECONDS = /_(s|ms|us|seconds)$/;
const PER_SECOND = /_per_(s|ms|us|second|seconds)$/;

/** What Hora measures beside the metrics that a job reports. */
const MEASURED: ReadonlySet<string> = new Set([
  "learning_rate",
  "samples_per_s",
  "epoch_s",
  "step_time_s",
  "step_time_p50_s",
  "step_time_p95_s",
  "data_wait_s",
  "epoch_data_wait_s",
  "allreduce_s",
  "epoch_allreduce_s",
]);

/** What Hora samples of slots and hosts. */
const SAMPLED: ReadonlySet<string> = new Set([
  "gpu_percent",
  "gpu_memory_bytes",
  "gpu_power_w",
  "gpu_temperature_c",
  "gpu_sm_clock_mhz",
  "gpu_throttle",
  "gpu_processes",
  "cpu_percent",
  "memory_bytes",
  "network_received_bytes_per_s",
  "network_sent_bytes_per_s",
  "disk_read_bytes_per_s",
  "disk_written_bytes_per_s",
]);

const FIRST_CHOICES = ["val_accuracy", "val_auc", "val_loss"];
const LAST_CHOICES = ["accuracy", "loss"];

const USUAL_NAMES: ReadonlySet<string> = new Set([...MEASURED, ...FIRST_CHOICES, ...LAST_CHOICES]);

/** A metric's name on the page: in words if every job may have it, else as the job reports it. */
export function metricText(metric: string): string {
  return USUAL_NAMES.has(metric) ? words(metric) : metric;
}

const SHARE = /(^|[_./:@-])(accuracy|acc|auc|auroc|f1|f1_score|precision|recall|iou|miou|dice)$/i;

/** Whether a metric is a share such as an accuracy, whose values end at 1. */
export function isShare(metric: string): boolean {
  return SHARE.test(metric);
}

export function isMeasured(metric: string): boolean {
  return MEASURED.has(metric);
}

/** Whether a metric is a time: `_s`, but not `_per_s`. */
export function isTime(metric: string): boolean {
  return SECONDS.test(metric) && !PER_SECOND.test(metric);
}

/** Whether a lower value is better: as the goal says if it is of this metric, else true for losses, errors and times. */
export function isBetterLower(metric: string, goal: Goal | null = null): boolean {
  if (goal?.metric === metric && goal.mode) return goal.mode === "min";
  return isTime(metric) || LOWER.test(metric);
}

/** The metric that counts: that of the goal, else the first of the usual names. Null without a goal and names. */
export function goalMetric(goal: Goal | null, names: Iterable<string>): string | null {
  if (goal !== null) return goal.metric;
  const reported = [...names].filter((name) => !MEASURED.has(name) && !SAMPLED.has(name)).sort();
  const ofValidation = reported.filter((name) => name.startsWith("val_"));
  return (
    [...FIRST_CHOICES, ...ofValidation, ...LAST_CHOICES, ...reported].find((name) => reported.includes(name)) ?? null
  );
}

/** The goal in a spec; null if it names none. */
export function goalOf(spec: Readonly<Record<string, unknown>>): Goal | null {
  return (spec["goal"] as Goal | null | undefined) ?? null;
}

/** The metric that counts for a job. One that Hora's own loop trains reports `val_accuracy` sooner or later. */
export function goalMetricOf(spec: Job["spec"], names: Iterable<string>): string | null {
  return goalMetric(goalOf(spec), names) ?? (isScript(spec) ? null : (FIRST_CHOICES[0] as string));
}

/** Whether a spec runs a person's own code. */
export function isScript(spec: Job["spec"]): boolean {
  return spec["code"] != null;
}

/** The ranks of a job: one for each GPU, or one for all of them. */
export function ranksOf({ gpus, spec }: Job): number {
  return spec["strategy"] === "mirrored" ? 1 : gpus;
}

const OF_SUMMARY = ["val_accuracy", "val_loss", "test_accuracy", "test_loss"] as const;

const metricsByJob = new WeakMap<Job, Metrics>(); // tables ask for each cell

/** The metrics of a job, with the newest values of a live one. Jobs of earlier versions have them in the summary only. */
export function metricsOf(job: Job): Metrics {
  const known = metricsByJob.get(job) ?? joined(job);
  metricsByJob.set(job, known);
  return known;
}

function joined({ spec, metrics, summary, progress, ended_at }: Job): Metrics {
  const results = OF_SUMMARY.flatMap((name): [string, Metrics[string]][] => {
    const value = summary?.[name];
    return value == null ? [] : [[name, { last: value, best: value, best_epoch: summary?.best_epoch ?? null }]];
  });
  const known = { ...Object.fromEntries(results), ...metrics };
  return ended_at == null ? withNewest(known, progress, goalOf(spec)) : known;
}

interface NewestMetrics {
  readonly metrics?: Readonly<Record<string, number | null>>;
  /** The ended epoch that they belong to. `progress.epoch` of a script is the epoch in progress. */
  readonly metrics_epoch?: number | null;
}

/** Metrics with the values of the newest epoch. */
export function withNewest(metrics: Metrics, progress: Job["progress"], goal: Goal | null): Metrics {
  const { metrics: newestOf, metrics_epoch } = progress as NewestMetrics;
  const newest = Object.entries(newestOf ?? {});
  if (newest.every(([name, last]) => metrics[name]?.last === last)) return metrics;
  const epoch = metrics_epoch ?? progress.epoch;
  const changed = newest.map(([name, last]): [string, Metrics[string]] => {
    const before = metrics[name];
    const isBest = last !== null && (before?.best == null || isBetter(name, last, before.best, goal));
    return [
      name,
      {
        ...before,
        last,
        best: isBest ? last : (before?.best ?? null),
        best_epoch: isBest ? epoch : (before?.best_epoch ?? null),
      },
    ];
  });
  return { ...metrics, ...Object.fromEntries(changed) };
}

/** Whether a value of a metric is better than another. */
export function isBetter(metric: string, value: number, than: number, goal: Goal | null): boolean {
  return isBetterLower(metric, goal) ? value < than : value > than;
}

/** Names of metrics in their order on the page: the one that counts, its training, validations, then the others. */
export function inOrder(names: Iterable<string>, counts: string | null): string[] {
  const rank = (name: string): number => (name === counts ? 0 : name.startsWith("val_") ? 1 : isMeasured(name) ? 3 : 2);
  return [...names].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b, "en", { numeric: true }));
}
