// The results of a job, or its figures so far, as a strip.

import type { Job } from "../../../api/types.ts";
import { bytes, duration, number, percent, short } from "../../../format.ts";
import { isScript, ranksOf } from "../../../metrics.ts";
import { useEver } from "../use_job.ts";
import { type Figure, learnedFigures } from "./learned.ts";
import styles from "./results.module.css";

export function Summary({ job }: { job: Job }) {
  const figures = [...learnedFigures(job), ...costsOf(job), ...planOf(job)].filter(({ value }) => value !== "–");
  const isGrowing = useEver(job.ended_at === null && !isScript(job.spec));
  return (
    <dl
      class={`${styles["strip"]} ${isGrowing ? styles["growing"] : ""}`}
      aria-label={job.summary === null ? "Figures so far" : "Results"}
    >
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
function planOf(job: Job): Figure[] {
  const { gpus, plan, spec } = job;
  const count = ranksOf(job);
  const ranks = { name: "Ranks", value: String(count), more: count < gpus ? `on ${gpus} slots` : undefined };
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
