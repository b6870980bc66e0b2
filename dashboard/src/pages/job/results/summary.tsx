// The results of a job, or its figures so far, as a strip.

import type { Job } from "../../../api/types.ts";
import { bytes, duration, number, percent, short } from "../../../format.ts";
import { goalMetricOf, isScript, metricsOf } from "../../../metrics.ts";
import styles from "./results.module.css";

interface Figure {
  readonly name: string;
  readonly value: string;
  readonly more?: string | undefined;
}

export function Summary({ job }: { job: Job }) {
  const learned = isScript(job.spec) ? goalFigures(job) : resultsOf(job);
  const figures = [...learned, ...costsOf(job), ...planOf(job)].filter(({ value }) => value !== "–");
  return (
    <dl class={styles["strip"]} aria-label={job.summary === null ? "Figures so far" : "Results"}>
      {figures.map(({ name, value, more }) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            {value}
            {more !== undefined && <small>{more}</small>}
          </dd>
        </div>
      ))}
    </dl>
  );
}

function resultsOf({ summary, progress }: Job): Figure[] {
  const soFar = progress as { metrics?: Record<string, number> };
  const best = summary === null ? undefined : `epoch ${summary.best_epoch ?? "–"}`;
  return [
    { name: "Val accuracy", value: number(summary?.val_accuracy ?? soFar.metrics?.["val_accuracy"]), more: best },
    { name: "Val loss", value: number(summary?.val_loss ?? soFar.metrics?.["val_loss"]) },
    { name: "Test accuracy", value: number(summary?.test_accuracy) },
    { name: "Test loss", value: number(summary?.test_loss) },
  ];
}

/** The best value of the metric that counts. */
function goalFigures(job: Job): Figure[] {
  const metrics = metricsOf(job);
  const goal = goalMetricOf(job.spec, Object.keys(metrics));
  const value = metrics[goal ?? ""];
  if (goal === null || value === undefined) return [];
  const epoch = value.best_epoch == null ? "" : `, epoch ${value.best_epoch}`;
  return [{ name: goal, value: number(value.best), more: `best${epoch}` }];
}

function costsOf({ summary, progress }: Job): Figure[] {
  const soFar = progress as { samples_per_s?: number };
  return [
    {
      name: "Epochs run",
      value: number(summary?.epochs_run),
      more: summary?.stopped_early ? "stopped early" : undefined,
    },
    { name: "After the best epoch", value: percent(summary?.after_best_share), more: "of the training" },
    { name: "Samples/s", value: short(summary?.train_samples_per_s ?? soFar.samples_per_s) },
    { name: "Training", value: duration(summary?.wall_s) },
    { name: "Set-up", value: duration(summary?.setup_s) },
    { name: "Parameters", value: short(summary?.parameters), more: sizeOf(summary) },
  ];
}

function sizeOf(summary: Job["summary"]): string | undefined {
  return summary?.model_bytes == null ? undefined : bytes(summary.model_bytes);
}

/** A script may use the batch and the rate of its plan or not. So only the tab of the spec shows them. */
function planOf({ gpus, plan, spec }: Job): Figure[] {
  const ranks = { name: "Ranks", value: String(gpus) };
  if (isScript(spec)) return [ranks];
  const {
    global_batch: batch,
    per_gpu_batch: ofEach,
    learning_rate: rate,
  } = plan as Record<string, number | undefined>;
  return [
    ranks,
    { name: "Batch", value: number(batch), more: gpus > 1 ? `${number(ofEach)} each` : undefined },
    { name: "Learning rate", value: number(rate) },
  ];
}
