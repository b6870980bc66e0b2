// The current state of a job: polled, and followed live while it runs. Used by the page of a job.

import { useEffect, useRef, useState } from "preact/hooks";
import { type Polled, usePolled } from "../../api/polled.ts";
import type { Problem } from "../../api/problem.ts";
import { useStream } from "../../api/stream.ts";
import type { Job, JobEvent, Progress } from "../../api/types.ts";
import { isTerminal } from "../../parts/status.tsx";
import { pathWith } from "../../query.ts";
import { hasMeasuredMore, type News, newsAfter, type State, withEvents, withNews } from "./news.ts";

const GATHERED_MS = 50; // a stream begins with the whole history, which is shown in a few steps and not line by line
const SHORT_EPOCHS = 2000; // each has two events, and a stream sends all events from the first one on
const STREAMING_MS = 2500; // progress comes about once a second

export interface JobNow {
  readonly job: Job | undefined;
  readonly events: readonly JobEvent[];
  readonly problem: Problem | undefined;
  readonly refresh: () => void;
}

/** A long history is read only if `isHistoryWanted`, a short one always. */
export function useJob(id: string, isHistoryWanted: boolean): JobNow {
  const [isLive, setLive] = useState(true);
  const { data, problem, refresh } = usePolled<Job>(`/v1/jobs/${id}`, { every_s: isLive ? 5 : 60 });
  const [news, setNews] = useState<News>({});
  const progressAt = useRef(0);
  const [events, add] = useGathered();

  useEffect(() => {
    if (data === undefined) return;
    setLive(!isTerminal(data.status));
    setNews((now) => newsAfter(now, data, performance.now() - progressAt.current < STREAMING_MS));
  }, [data]);

  const hasHistory = useRef(false); // once it is read, it is followed
  if (data !== undefined && (isHistoryWanted || (data.progress.epoch ?? 0) <= SHORT_EPOCHS)) hasHistory.current = true;
  const include = hasHistory.current ? "event,state,progress" : "state,progress";
  useStream(data === undefined ? null : `/v1/jobs/${id}/events?include=${include}`, {
    event: (event: JobEvent) => {
      add(event);
      if (event.kind === "changed") refresh(); // an edit changes nothing else that is streamed
    },
    progress: (progress: Progress) => {
      progressAt.current = performance.now();
      setNews((now) => ({ ...now, progress }));
      if (hasMeasuredMore(data, progress)) refresh(); // what a probe found is not streamed
    },
    state: (state: State) => {
      setNews((now) => ({ ...now, state }));
      if (state.revision !== data?.revision) refresh(); // only the answer has the summary, the plan and other fields
    },
    end: refresh,
  });
  // The stream of an ended job has ended. That of all jobs says what else happens to it.
  const refreshIfOfIt = (news: { id: string }): void => void (news.id === data?.id && refresh());
  useStream(isLive || data === undefined ? null : pathWith("/v1/events", { owner: data.owner }), {
    state: refreshIfOfIt,
    deleted: refreshIfOfIt,
  });
  return { job: data && withNews(data, news), events, problem, refresh };
}

/** Events that come one by one, shown in batches. */
function useGathered(): [readonly JobEvent[], (event: JobEvent) => void] {
  const [events, setEvents] = useState<readonly JobEvent[]>([]);
  const waiting = useRef<JobEvent[]>([]);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const flush = (): void => {
    timer.current = undefined;
    const more = waiting.current;
    waiting.current = [];
    setEvents((now) => withEvents(now, more));
  };
  const add = (event: JobEvent): void => {
    waiting.current.push(event);
    timer.current ??= setTimeout(flush, GATHERED_MS);
  };
  return [events, add];
}

/** The same as `usePolled`. It also asks at once whenever the job's `revision` changes. */
export function useOfJob<T>(path: string | null, revision: number, every_s: number): Polled<T> {
  const polled = usePolled<T>(path, { every_s });
  const refresh = useRef(polled.refresh);
  refresh.current = polled.refresh;
  const seenRevision = useRef(revision);
  useEffect(() => {
    if (seenRevision.current !== revision) refresh.current();
    seenRevision.current = revision;
  }, [revision]);
  return polled;
}

/** The time in milliseconds, updated each second while `isTicking`. */
export function useNow(isTicking: boolean): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (!isTicking) return;
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [isTicking]);
  return isTicking ? now : Date.now();
}

/** Whether it is true, or was since the page was opened: what grows while a person looks at it keeps its room. */
export function useEver(isNow: boolean): boolean {
  const was = useRef(isNow);
  was.current ||= isNow;
  return was.current;
}
