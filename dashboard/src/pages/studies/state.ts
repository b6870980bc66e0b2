// The state of a study, from the counts of its jobs. Pure; used by the list and by the page of a study.

import type { Status, Study, StudyLine } from "../../api/types.ts";
import { countText } from "../../format.ts";
import { fieldLabel } from "./figures.ts";

const ENDED = ["succeeded", "failed", "cancelled"] as const;
const LIVE = ["running", "launching", "queued"] as const;

/** The jobs of a study, or of another group, by status. */
export type Counted = Pick<StudyLine, "counts" | "jobs">;

export function endedJobs({ counts }: Counted): number {
  return sum(ENDED.map((status) => counts[status] ?? 0));
}

export function liveJobs({ counts }: StudyLine): number {
  return sum(LIVE.map((status) => counts[status] ?? 0));
}

/** The status of a study, in the statuses of a job. */
export function statusOf(study: StudyLine): Status {
  const has = (status: Status): boolean => (study.counts[status] ?? 0) > 0;
  if (study.complete) {
    if (study.search && study.cancel_requested_at !== null) return "cancelled"; // its jobs may all have succeeded
    if (has("cancelled") && (study.cancel_requested_at !== null || !has("failed"))) return "cancelled";
    return has("failed") ? "failed" : "succeeded";
  }
  return LIVE.find((status) => status !== "queued" && has(status)) ?? (endedJobs(study) > 0 ? "running" : "queued");
}

/** Whether all its live jobs are paused. */
export function isPaused(study: StudyLine): boolean {
  return liveJobs(study) > 0 && study.paused === liveJobs(study);
}

/** 5 of 12 jobs ended, 1 failed, 2 running. */
export function progressLine(study: Counted): string {
  const others = (["failed", "cancelled", ...LIVE] as const)
    .filter((status) => (study.counts[status] ?? 0) > 0)
    .map((status) => `${study.counts[status]} ${status}`);
  return [`${endedJobs(study)} of ${countText(study.jobs, "job")} ended`, ...others].join(", ");
}

/** What is varied: gpus × batch size, 4 cells × 3 repeats; or 24 trials by tpe. */
export function gridLine(study: StudyLine): string {
  const cells = study.jobs / study.repeats;
  const fields = study.varied.map(fieldLabel).join(" × ");
  if (study.search) return `${fields}, ${countText(study.jobs, "trial")} by ${study.search.method}`;
  return [fields || "nothing varies", `${countText(cells, "cell")} × ${countText(study.repeats, "repeat")}`].join(", ");
}

const MOST_JOBS = 100; // of a study that does not set `max_jobs`

/** What to submit for the same study once more. */
export function configurationOf({ name, base, grid, search, repeats, target, jobs }: Study): object {
  return {
    name,
    base,
    ...(search ? { search } : { grid }),
    repeats,
    ...(target === null ? {} : { target }),
    ...(jobs > MOST_JOBS ? { max_jobs: jobs } : {}),
  };
}

export interface Part {
  readonly status: Status;
  readonly count: number;
  readonly share: number;
}

/** The jobs of a study by status, ended ones first. */
export function partsOf(study: Counted): Part[] {
  return [...ENDED, ...LIVE].flatMap((status) => {
    const count = study.counts[status] ?? 0;
    return count === 0 ? [] : [{ status, count, share: count / study.jobs }];
  });
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
