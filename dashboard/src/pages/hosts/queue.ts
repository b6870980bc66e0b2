// The order of the queue. Jobs that are not in their turn have no place in it.

import type { Job } from "../../api/types.ts";

export interface Queue {
  readonly waiting: readonly Job[];
  /** Those that a person asked to wait, or that wait after a failed attempt. */
  readonly outOfTurn: readonly Job[];
}

export function queueOf(jobs: readonly Job[]): Queue {
  const place = (job: Job): number => job.waiting?.position ?? Number.POSITIVE_INFINITY;
  const queued = jobs.filter(({ status }) => status === "queued");
  return {
    waiting: queued.filter((job) => Number.isFinite(place(job))).sort((one, other) => place(one) - place(other)),
    outOfTurn: queued.filter((job) => !Number.isFinite(place(job))),
  };
}
