// Merges the events of a stream into the last answer about a job. Used by `use_job.ts`.

import type { Job, JobEvent, Progress } from "../../api/types.ts";

/** The data of `state` in docs/live.md. */
export type State = Pick<
  Job,
  | "status"
  | "end_reason"
  | "error"
  | "attempt"
  | "restarts"
  | "waiting"
  | "paused_at"
  | "cancel_requested_at"
  | "started_at"
  | "ended_at"
  | "revision"
>;

export interface News {
  readonly state?: State;
  readonly progress?: Progress;
}

/** The job with the news merged in. A state older than the job is left out. */
export function withNews(job: Job, news: News): Job {
  const { state, progress } = news;
  const isNewer = state !== undefined && state.revision >= job.revision;
  return { ...job, ...(isNewer ? state : {}), ...(progress === undefined ? {} : { progress }) };
}

/** The news to keep after the job was read again: a state that is newer than the answer. */
export function newsAfter(news: News, job: Job, isStreaming: boolean): News {
  return {
    ...(news.state !== undefined && news.state.revision > job.revision ? { state: news.state } : {}),
    // An answer of a busy moment may be a step behind the stream; without a stream it is the newest there is.
    ...(isStreaming && news.progress !== undefined ? { progress: news.progress } : {}),
  };
}

/** Whether a probe has measured batches that the last answer does not have. */
export function hasMeasuredMore(job: Job | undefined, { step }: Progress): boolean {
  return job?.spec["probe"] != null && step > (job.probe?.points.length ?? 0);
}

/** A history with more events, without repeats, in the order in which they were written. */
export function withEvents(events: readonly JobEvent[], more: readonly JobEvent[]): readonly JobEvent[] {
  const last = events.at(-1)?.id ?? -1;
  if (more.every((event, index) => event.id > (index === 0 ? last : (more[index - 1] as JobEvent).id))) {
    return [...events, ...more];
  }
  const byId = new Map([...events, ...more].map((event) => [event.id, event]));
  return [...byId.values()].sort((a, b) => a.id - b.id);
}
