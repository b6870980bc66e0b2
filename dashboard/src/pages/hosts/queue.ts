// The order of the queue. Jobs that are paused or wait after a failure have no position.

import type { Job } from "../../api/types.ts";

export interface Queue {
  readonly waiting: readonly Job[];
  /** Jobs that a person paused, or that wait after a failed attempt. */
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
