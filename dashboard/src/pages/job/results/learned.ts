// How well a job has learned, as figures: first by the metric that counts. Pure.

import type { Job } from "../../../api/types.ts";
import { number } from "../../../format.ts";
import { goalMetricOf, isScript, metricsOf } from "../../../metrics.ts";

export interface Figure {
  readonly name: string;
  readonly value: string;
  readonly more?: string | undefined;
}

export function learnedFigures(job: Job): Figure[] {
  if (isScript(job.spec)) return goalFigures(job);
  const goal = goalMetricOf(job.spec, Object.keys(metricsOf(job))) ?? "val_accuracy";
  const results = RESULTS.filter(([metric]) => goal === "val_accuracy" || metric !== goal);
  return [
    ...(goal === "val_accuracy" ? [] : goalFigures(job)),
    ...results.map((result) => resultOf(job, result)),
  ].filter(({ name }) => hasAccuracy(job) || !name.endsWith("accuracy"));
}

/** Whether the task of a job has an accuracy; true until its first validation. */
function hasAccuracy(job: Job): boolean {
  const names = Object.keys(metricsOf(job));
  return names.includes("val_accuracy") || !names.includes("val_loss");
}

const RESULTS = [
  ["val_accuracy", "Val accuracy"],
  ["val_loss", "Val loss"],
  ["test_accuracy", "Test accuracy"],
  ["test_loss", "Test loss"],
] as const;

/** A result of the weights that were kept, or of the newest epoch. */
function resultOf({ spec, summary, progress }: Job, [metric, name]: (typeof RESULTS)[number]): Figure {
  const soFar = progress as { metrics?: Record<string, number> };
  const value = number(summary?.[metric] ?? soFar.metrics?.[metric]);
  const isOfBest = metric === "val_accuracy" && summary?.best_epoch != null && keepsBest(spec);
  return { name, value, more: isOfBest ? `epoch ${summary.best_epoch}` : undefined };
}

/** Whether a job of Hora's own loop keeps the weights of its best epoch. Otherwise it keeps the last ones. */
function keepsBest(spec: Job["spec"]): boolean {
  const stopping = spec["early_stopping"] as { readonly restore_best_weights?: boolean } | null | undefined;
  return stopping != null && stopping.restore_best_weights !== false;
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
