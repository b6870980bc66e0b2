// The jobs that the page compares, kept up to date: those named in the address, and those of a study.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { call, Problem } from "../../api/client.ts";
import { usePolled } from "../../api/polled.ts";
import { useStream } from "../../api/stream.ts";
import type { Job, Listed, Progress } from "../../api/types.ts";
import { isTerminal } from "../../parts/status.tsx";
import { pathWith } from "../../query.ts";
import { MOST_RUNS } from "./runs.ts";
import { JobStore, type KnownJobs, type StreamedState } from "./store.ts";

const RETRY_MS = 3000;
const RECHECK_MS = 15_000;
const ONCE = { every_s: Number.POSITIVE_INFINITY };

export interface Jobs extends KnownJobs {
  /** The ids of the address, then those of the study, without repeats. */
  readonly ids: readonly string[];
  /** The study has more jobs than the page compares. */
  readonly isCut: boolean;
  /** All jobs have been read. */
  readonly isComplete: boolean;
  readonly isLive: boolean;
  readonly problem: Problem | undefined;
}

export function useJobs(namedIds: readonly string[], study: string): Jobs {
  const [knownJobs, setKnownJobs] = useState<KnownJobs>({ jobs: new Map(), gone: new Set() });
  const [problem, setProblem] = useState<Problem>();
  const store = useRef<JobStore>(null);
  store.current ??= new JobStore(fetchJob, setKnownJobs, (error) =>
    setProblem(error instanceof Problem ? error : new Problem(-1, "unreadable", "Unreadable answer", String(error))),
  );
  const ofStudy = useStudy(study);
  const ids = useMemo(
    () => [...new Set([...namedIds, ...(ofStudy.jobs ?? []).map(({ id }) => id)])].slice(0, MOST_RUNS),
    [namedIds, ofStudy.jobs],
  );
  useEffect(() => {
    if (ofStudy.jobs !== undefined) store.current?.put(ofStudy.jobs);
  }, [ofStudy.jobs]);
  useEffect(() => {
    setProblem(undefined);
    store.current?.want(namedIds.slice(0, MOST_RUNS));
  }, [namedIds]);
  useEffect(() => {
    if (problem === undefined) return;
    const timer = setTimeout(() => store.current?.want(namedIds.slice(0, MOST_RUNS)), RETRY_MS);
    return () => clearTimeout(timer);
  }, [problem, namedIds]);

  const isComplete =
    (study === "" || ofStudy.jobs !== undefined) && ids.every((id) => knownJobs.jobs.has(id) || knownJobs.gone.has(id));
  const isLive = ids.some((id) => !isTerminal(knownJobs.jobs.get(id)?.status ?? "succeeded"));
  useFollowed(store.current, isLive);
  return {
    ...knownJobs,
    ids,
    isCut: ofStudy.isCut || namedIds.length > MOST_RUNS,
    isComplete,
    isLive,
    problem: isComplete ? undefined : (problem ?? ofStudy.problem),
  };
}

async function fetchJob(id: string): Promise<Job | null> {
  try {
    return (await call<Job>("GET", `/v1/jobs/${encodeURIComponent(id)}`)).data;
  } catch (error) {
    // 422: the text cannot be an id.
    if (error instanceof Problem && (error.status === 404 || error.status === 422)) return null;
    throw error;
  }
}

/** The jobs of a study by cell, then by repeat, replaced jobs included. */
function useStudy(study: string): { jobs: readonly Job[] | undefined; isCut: boolean; problem: Problem | undefined } {
  const path = study === "" ? null : pathWith("/v1/jobs", { study, sort: "created_at", limit: MOST_RUNS });
  const { data, problem } = usePolled<Listed<Job>>(path, ONCE);
  const jobs = useMemo(() => data?.items.toSorted(byCell), [data]);
  return { jobs, isCut: data?.next_cursor != null, problem };
}

function byCell(a: Job, b: Job): number {
  return (a.study_cell ?? 0) - (b.study_cell ?? 0) || (a.study_repeat ?? 0) - (b.study_repeat ?? 0);
}

/** Follow changes while any of the jobs is live. */
function useFollowed(store: JobStore, isLive: boolean): void {
  useStream(isLive ? "/v1/events" : null, {
    state: (state: StreamedState) => store.heard(state),
    progress: ({ id, progress }: { id: string; progress: Progress }) => store.advanced(id, progress),
  });
  useEffect(() => {
    if (!isLive) return;
    const timer = setInterval(() => document.hidden || store.recheck(), RECHECK_MS);
    return () => clearInterval(timer);
  }, [store, isLive]);
}
