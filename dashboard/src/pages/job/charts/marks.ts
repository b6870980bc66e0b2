// The marks on all charts of a job: where it was best, and its restarts.

import type { Attempt, Job } from "../../../api/types.ts";
import type { Mark } from "../../../charts/pen.ts";
import { goalMetricOf, goalOf, isBetter, isScript } from "../../../metrics.ts";
import type { Metrics } from "./curves.ts";
import type { Axis } from "./view.ts";

/** The fields of a job that its marks depend on. */
type MarkedJob = Pick<Job, "summary" | "plan" | "spec" | "started_at" | "created_at">;

export function marksOf(job: MarkedJob, attempts: readonly Attempt[], metrics: Metrics, axis: Axis): Mark[] {
  const best = bestEpochAt(job, metrics, axis);
  const restarts = attempts.flatMap((attempt) => {
    const x = attempt.number > 1 ? restartAt(job, attempt, axis) : null;
    return x === null ? [] : [{ x, text: `attempt ${attempt.number}` }];
  });
  return best === null ? restarts : [...restarts, { x: best, text: isScript(job.spec) ? "best" : "best epoch" }];
}

/** The place of the best value of a script's goal. A script may count no epochs, and end them where it likes. */
function bestOfScript({ summary, spec }: MarkedJob, metrics: Metrics): number | null {
  const goal = goalMetricOf(spec, Object.keys(summary?.metrics ?? {}));
  const { xs, ys } = metrics.get(goal ?? "")?.get(-1) ?? { xs: [], ys: [] };
  let best: number | null = null;
  for (const [index, y] of ys.entries())
    if (Number.isFinite(y) && (best === null || isBetter(goal ?? "", y, ys[best] as number, goalOf(spec))))
      best = index;
  return best === null ? null : (xs[best] ?? null);
}

function bestEpochAt(job: MarkedJob, metrics: Metrics, axis: Axis): number | null {
  if (isScript(job.spec)) return job.summary === null ? null : bestOfScript(job, metrics);
  const epoch = job.summary?.best_epoch;
  if (epoch == null || epoch < 1) return null;
  if (axis === "epoch") return epoch;
  // One point for each epoch, if none was left out.
  const ends = metrics.get("loss")?.get(-1)?.xs ?? [];
  const isWhole = ends.length === job.summary?.epochs_run;
  if (isWhole) return ends[epoch - 1] ?? null;
  return axis === "step" ? stepsOf(job, epoch) : null;
}

function stepsOf(job: MarkedJob, epoch: number): number | null {
  const perEpoch = job.plan?.["steps_per_epoch"];
  return typeof perEpoch === "number" ? epoch * perEpoch : null;
}

function restartAt(job: MarkedJob, attempt: Attempt, axis: Axis): number | null {
  if (axis === "time") {
    const [zero, start] = [job.started_at ?? job.created_at, attempt.started_at];
    return start ? (Date.parse(start) - Date.parse(zero)) / 1000 : null;
  }
  const step = attempt.resumed_step;
  if (step == null) return null;
  if (axis === "step") return step;
  const perEpoch = stepsOf(job, 1);
  return perEpoch === null ? null : step / perEpoch;
}
