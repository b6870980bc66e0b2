// Jobs for the tests of the list.

import type { Job } from "../../api/types.ts";
import { type Row, rowOf } from "./row.ts";

/** A job of the api, with the fields that a row reads. */
export function jobWith(changes: Partial<Job> = {}): Job {
  const job: Partial<Job> = {
    id: "a",
    name: "digits",
    owner: "ada",
    project: "default",
    status: "queued",
    end_reason: null,
    error: null,
    spec: { dataset: { source: "digits" }, model: { name: "lenet5" } },
    plan: { global_batch: 64, per_gpu_batch: 32, learning_rate: 0.002 },
    progress: { epoch: 0, step: 0 },
    summary: null,
    metrics: {},
    labels: {},
    starred: false,
    archived: false,
    notes_at: null,
    study: null,
    gpus: 2,
    priority: 50,
    attempt: 0,
    restarts: 0,
    alerts: 0,
    waiting: null,
    paused_at: null,
    cancel_requested_at: null,
    created_at: "2030-01-01T00:00:00Z",
    started_at: null,
    ended_at: null,
    revision: 1,
    ...changes,
  };
  return job as Job;
}

export function rowWith(changes: Partial<Row> = {}): Row {
  return { ...rowOf(jobWith()), ...changes };
}

/** Rows of these ids, one letter each. */
export function rowsOf(ids: string): Row[] {
  return [...ids].map((id) => rowWith({ id }));
}

/** The ids of rows, together. */
export function idsOf(rows: Iterable<{ readonly id: string }>): string {
  return [...rows].map(({ id }) => id).join("");
}
