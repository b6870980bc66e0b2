// One stream for all groups that are open: each gets the events of the jobs that it has.

import { useEffect, useMemo, useRef } from "preact/hooks";
import { useStream } from "../../../api/stream.ts";
import { markDeleted } from "../../../deleted.ts";
import type { Listing } from "../listing.ts";
import type { StreamedProgress, StreamedState } from "../row.ts";
import { streamPath, type View } from "../view.ts";

const REFRESH_MS = 2000; // at least, between two reads of the studies because of events

export interface News {
  /** Send events to a listing, until the returned function is called. */
  readonly follow: (listing: Listing) => () => void;
  /** Call a function when the state of a job has changed, until the returned function is called. */
  readonly onChange: (refresh: () => void) => () => void;
}

export function useNews(view: View): News {
  const listings = useRef(new Set<Listing>()).current;
  const refreshes = useRef(new Set<() => void>()).current;
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const refreshSoon = (): void => {
    timer.current ??= setTimeout(() => {
      timer.current = undefined;
      for (const refresh of refreshes) refresh();
    }, REFRESH_MS);
  };
  useStream(streamPath(view), {
    state: (state: StreamedState) => {
      for (const listing of listings) if (has(listing, state.id)) listing.takeState(state);
      refreshSoon();
    },
    deleted: (job: { id: string }) => {
      markDeleted(job);
      refreshSoon();
    },
    progress: (progress: StreamedProgress) => {
      for (const listing of listings) if (has(listing, progress.id)) listing.takeProgress(progress);
    },
  });
  return useMemo(
    () => ({ follow: (listing) => joined(listings, listing), onChange: (refresh) => joined(refreshes, refresh) }),
    [listings, refreshes],
  );
}

function has(listing: Listing, id: string): boolean {
  return listing.list.peek()?.rows.some((row) => row.id === id) ?? false;
}

function joined<T>(all: Set<T>, one: T): () => void {
  all.add(one);
  return () => {
    all.delete(one);
  };
}
