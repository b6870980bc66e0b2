// Which metric says how good a job is, and which of its values are better. The same rules as in
// jobs/model/goals.py: metrics.cases.json is checked against both. Pure; used by lists, charts and tables.

/** The goal of a spec. Without a mode its name decides. */
export interface Goal {
  readonly metric: string;
  readonly mode?: "min" | "max" | null;
}

// The last word of the name, or all of it: val_loss, MAE, test_rmse, wer.
const LOWER =
  /(^|[_./:@-])(loss|cost|nll|bce|kl|crossentropy|cross_entropy|mae|mse|rmse|mape|msle|rmsle|error|err|errors|perplexity|ppl|wer|cer|fid|bpc|bpd|eer|regret|latency|damaged)$/i;
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

const FIRST_CHOICES = ["val_accuracy", "val_loss"];
const LAST_CHOICES = ["accuracy", "loss"];

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
