// The compared jobs, kept up to date. Each is read once; then the stream of all jobs reports its changes. A job that
// has ended is read again. Pure except for the `FetchJob` that it gets; used by `use_jobs.ts`.

import type { Job, Progress } from "../../api/types.ts";

/** A few at once: a browser has six connections to a host, and the page needs some for its charts. */
const AT_ONCE = 4;

/** The jobs that were read; a new object with every change. */
export interface KnownJobs {
  readonly jobs: ReadonlyMap<string, Job>;
  /** Ids for which the api has no job. */
  readonly gone: ReadonlySet<string>;
}

/** The data of a `state` event of the stream of all jobs. */
export type StreamedState = Pick<Job, "id" | "status" | "started_at" | "ended_at" | "revision">;

/** Reads a job; null if it does not exist. Other problems are raised, and end the round. */
export type FetchJob = (id: string) => Promise<Job | null>;

export class JobStore {
  #knownJobs: KnownJobs = { jobs: new Map(), gone: new Set() };
  #waiting = new Set<string>();
  #requestsRunning = 0;
  #updatedIds = new Set<string>();
  readonly #fetchJob: FetchJob;
  readonly #changed: (known: KnownJobs) => void;
  readonly #failed: (error: unknown) => void;

  constructor(fetchJob: FetchJob, changed: (known: KnownJobs) => void, failed: (error: unknown) => void) {
    this.#fetchJob = fetchJob;
    this.#changed = changed;
    this.#failed = failed;
  }

  /** Read the jobs that are not known yet. */
  want(ids: readonly string[]): void {
    for (const id of ids) if (!this.#knownJobs.jobs.has(id) && !this.#knownJobs.gone.has(id)) this.#waiting.add(id);
    this.#next();
  }

  /** Store jobs that came with a list. */
  put(jobs: readonly Job[]): void {
    const next = new Map(this.#knownJobs.jobs);
    for (const job of jobs)
      if (!this.#knownJobs.gone.has(job.id) && (next.get(job.id)?.revision ?? -1) <= job.revision)
        next.set(job.id, job);
    this.#set({ ...this.#knownJobs, jobs: next });
  }

  /** Store a state event of a job. When a job ends it is read again, for its results. */
  heard(state: StreamedState): void {
    const job = this.#knownJobs.jobs.get(state.id);
    this.#updatedIds.add(state.id);
    if (job === undefined) return;
    this.put([{ ...job, ...state }]);
    if (state.ended_at === null || job.ended_at !== null) return;
    this.#waiting.add(state.id);
    this.#next();
  }

  /** Store that a job was deleted. */
  deleted(id: string): void {
    const jobs = new Map(this.#knownJobs.jobs);
    if (jobs.delete(id)) this.#set({ jobs, gone: new Set(this.#knownJobs.gone).add(id) });
  }

  /** Store a progress event of a job. */
  advanced(id: string, progress: Progress): void {
    const job = this.#knownJobs.jobs.get(id);
    this.#updatedIds.add(id);
    if (job !== undefined)
      this.#set({ ...this.#knownJobs, jobs: new Map(this.#knownJobs.jobs).set(id, { ...job, progress }) });
  }

  /** Read live jobs without an event since the last call: one may have ended before the stream began. */
  recheck(): void {
    for (const { id, ended_at } of this.#knownJobs.jobs.values())
      if (ended_at === null && !this.#updatedIds.has(id)) this.#waiting.add(id);
    this.#updatedIds.clear();
    this.#next();
  }

  #next(): void {
    while (this.#requestsRunning < AT_ONCE) {
      const id = this.#waiting.values().next().value;
      if (id === undefined) return;
      this.#waiting.delete(id);
      this.#requestsRunning += 1;
      void this.#read(id);
    }
  }

  async #read(id: string): Promise<void> {
    try {
      const job = await this.#fetchJob(id);
      if (job !== null) this.put([job]);
      else this.#set({ ...this.#knownJobs, gone: new Set(this.#knownJobs.gone).add(id) });
    } catch (error) {
      this.#waiting.clear();
      this.#failed(error);
    }
    this.#requestsRunning -= 1;
    this.#next();
  }

  #set(known: KnownJobs): void {
    this.#knownJobs = known;
    this.#changed(known);
  }
}
