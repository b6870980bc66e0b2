// The results of a job, or its figures so far, as a strip.

import type { Job } from "../../../api/types.ts";
import { bytes, duration, number, percent, short } from "../../../format.ts";
import styles from "./results.module.css";

interface Figure {
  readonly name: string;
  readonly value: string;
  readonly more?: string | undefined;
}

export function Summary({ job }: { job: Job }) {
  const figures = [...resultsOf(job), ...planOf(job)].filter(({ value }) => value !== "–");
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
  const soFar = progress as { metrics?: Record<string, number>; samples_per_s?: number };
  const best = summary === null ? undefined : `epoch ${summary.best_epoch ?? "–"}`;
  return [
    { name: "Val accuracy", value: number(summary?.val_accuracy ?? soFar.metrics?.["val_accuracy"]), more: best },
    { name: "Val loss", value: number(summary?.val_loss ?? soFar.metrics?.["val_loss"]) },
    { name: "Test accuracy", value: number(summary?.test_accuracy) },
    { name: "Test loss", value: number(summary?.test_loss) },
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

function planOf({ gpus, plan }: Job): Figure[] {
  const {
    global_batch: batch,
    per_gpu_batch: ofEach,
    learning_rate: rate,
  } = plan as Record<string, number | undefined>;
  return [
    { name: "Ranks", value: String(gpus) },
    { name: "Batch", value: number(batch), more: gpus > 1 ? `${number(ofEach)} each` : undefined },
    { name: "Learning rate", value: number(rate) },
  ];
}
