// Why a job has no findings. Pure.

import type { Analysis } from "../../../api/types.ts";

const LEAST_STEPS = 30; // as in jobs/insight/analysis/verdicts.py
const LEAST_S = 3;

/** A sentence for a job without findings. The first of the rows of steps is the mean over all ranks. */
export function nothingFound({ complete, steps }: Pick<Analysis, "complete" | "steps">, isScript: boolean): string {
  const none = `No findings${complete ? "" : " yet"}`;
  const all = steps[0];
  if (all === undefined && isScript)
    return `${none}. Most findings need to know what steps wait for: measure data and allreduce with run.phase.`;
  if (all === undefined || all.steps < LEAST_STEPS || all.steps * all.step_time_s < LEAST_S)
    return `${none}. Most findings need at least ${LEAST_STEPS} steps that take ${LEAST_S} seconds in all.`;
  return `${none}: nothing stands out in what was measured.`;
}
