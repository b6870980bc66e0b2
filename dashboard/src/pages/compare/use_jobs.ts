// The jobs that the page compares, kept up to date: those named in the address, and those of a list.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { call, Problem } from "../../api/client.ts";
import { usePolled } from "../../api/polled.ts";
import { useStream } from "../../api/stream.ts";
import type { Job, Listed, Progress } from "../../api/types.ts";
import { isTerminal } from "../../parts/status.tsx";
import { isOfStudy, pathOfList } from "./list.ts";
import { MOST_RUNS } from "./runs.ts";
import { JobStore, type KnownJobs, type StreamedState } from "./store.ts";

const RETRY_MS = 3000;
const RECHECK_MS = 15_000;
const LIST_S = 10; // the stream reports new jobs; this corrects what it missed
const GATHERED_MS = 1000; // events within this time make one reading of the list

export interface Jobs extends KnownJobs {
  /** The ids of the address, then those of the list, without repeats. Jobs that come later are at the end. */
  readonly ids: readonly string[];
  /** The place of each run that was shown, which sets its number and colour: also of those that left the list. */
  readonly places: ReadonlyMap<string, number>;
  /** There are more jobs than the page compares. */
  readonly isCut: boolean;
  /** All jobs have been read. */
  readonly isComplete: boolean;
  readonly isLive: boolean;
  readonly problem: Problem | undefined;
}

/** `list` has the parameters that choose a list of jobs; empty without one. */
export function useJobs(namedIds: readonly string[], list: string): Jobs {
  const [knownJobs, setKnownJobs] = useState<KnownJobs>({ jobs: new Map(), gone: new Set() });
  const [problem, setProblem] = useState<Problem>();
  const store = useRef<JobStore>(null);
  store.current ??= new JobStore(fetchJob, setKnownJobs, (error) =>
    setProblem(error instanceof Problem ? error : new Problem(-1, "unreadable", "Unreadable answer", String(error))),
  );
  const listed = useList(list, store.current);
  const places = useMemo(() => new Map<string, number>(), [namedIds, list]);
  const [ids, isCut] = useMemo(() => {
    const all = [...new Set([...namedIds, ...(listed.ids ?? []).filter((id) => !knownJobs.gone.has(id))])];
    const shown = all.slice(0, MOST_RUNS);
    for (const id of shown) if (!places.has(id)) places.set(id, places.size);
    return [shown.sort((a, b) => (places.get(a) as number) - (places.get(b) as number)), all.length > MOST_RUNS];
  }, [namedIds, listed.ids, places, knownJobs.gone]);
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
    (list === "" || listed.ids !== undefined) && ids.every((id) => knownJobs.jobs.has(id) || knownJobs.gone.has(id));
  const isLive = ids.some((id) => !isTerminal(knownJobs.jobs.get(id)?.status ?? "succeeded"));
  useFollowed(store.current, isLive, list === "" ? null : listed.refresh);
  return {
    ...knownJobs,
    ids,
    places,
    isCut: listed.isCut || isCut,
    isComplete,
    isLive,
    problem: isComplete ? undefined : (problem ?? listed.problem),
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

interface ListedJobs {
  /** Undefined until they have come. */
  readonly ids: readonly string[] | undefined;
  readonly isCut: boolean;
  readonly problem: Problem | undefined;
  readonly refresh: () => void;
}

/** The first jobs of a list, which go to the store. Those of a study come by cell, then by repeat, replaced jobs included. */
function useList(list: string, store: JobStore): ListedJobs {
  const path = list === "" ? null : pathOfList(list, MOST_RUNS);
  const { data, problem, refresh } = usePolled<Listed<Job>>(path, { every_s: LIST_S });
  const [known, setKnown] = useState<{ list: string; ids: readonly string[] }>();
  useEffect(() => {
    if (data === undefined) return;
    const jobs = isOfStudy(list) ? data.items.toSorted(byCell) : data.items;
    store.put(jobs);
    setKnown({ list, ids: jobs.map(({ id }) => id) });
  }, [data, list, store]);
  return {
    ids: known?.list === list ? known.ids : undefined,
    isCut: data?.next_cursor != null,
    problem,
    refresh,
  };
}

function byCell(a: Job, b: Job): number {
  return (a.study_cell ?? 0) - (b.study_cell ?? 0) || (a.study_repeat ?? 0) - (b.study_repeat ?? 0);
}

/** Follow changes of the jobs, also their deletion. A list may get others: then also read it again. */
function useFollowed(store: JobStore, isLive: boolean, refreshList: (() => void) | null): void {
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useStream("/v1/events", {
    state: (state: StreamedState) => {
      store.heard(state);
      if (refreshList === null) return;
      timer.current ??= setTimeout(() => {
        timer.current = undefined;
        refreshList();
      }, GATHERED_MS);
    },
    deleted: ({ id }: { id: string }) => store.deleted(id),
    progress: ({ id, progress }: { id: string; progress: Progress }) => store.advanced(id, progress),
  });
  useEffect(() => {
    if (!isLive) return;
    const timer = setInterval(() => document.hidden || store.recheck(), RECHECK_MS);
    return () => clearInterval(timer);
  }, [store, isLive]);
}
