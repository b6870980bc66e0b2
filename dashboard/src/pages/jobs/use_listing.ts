// The jobs of the page's view: polled, updated by events, and shown until those of another view have come.

import { useEffect, useMemo, useRef } from "preact/hooks";
import { call, get } from "../../api/client.ts";
import { usePolled } from "../../api/polled.ts";
import type { Problem } from "../../api/problem.ts";
import { useStream } from "../../api/stream.ts";
import type { Job, Listed } from "../../api/types.ts";
import { markDeleted } from "../../deleted.ts";
import { Curves } from "./curves.ts";
import { Listing, PAGE_ROWS } from "./listing.ts";
import type { StreamedProgress, StreamedState } from "./row.ts";
import { listPath, streamPath, type View } from "./view.ts";

const EVERY_S = 10; // the stream sends changes; this corrects what it missed

export interface Jobs {
  readonly listing: Listing;
  /** Whether the shown jobs are still those of the previous view. */
  readonly isOld: boolean;
  readonly problem: Problem | undefined;
}

/** Without a stream of its own, the caller sends events to the listing. */
export function useListing(view: View, { hasStream = true }: { hasStream?: boolean } = {}): Jobs {
  const path = listPath(view, PAGE_ROWS);
  const refresh = useRef(() => {});
  // Another path is another list.
  const listing = useMemo(() => new Listing(view, { read: get, pollHead: () => refresh.current() }), [path]);
  // The stream is opened first: a change between the two then comes twice, and is not missed.
  useStream(hasStream ? streamPath(view) : null, {
    state: (state: StreamedState) => listing.takeState(state),
    progress: (progress: StreamedProgress) => listing.takeProgress(progress),
    deleted: markDeleted,
  });
  const head = usePolled<Listed<Job>>(path, { every_s: EVERY_S });
  refresh.current = head.refresh;
  useEffect(() => {
    if (head.data !== undefined) listing.takeHead(head.data);
  }, [listing, head.data]);
  useEffect(() => () => listing.close(), [listing]);
  const before = useRef(listing);
  if (listing.list.value !== null) before.current = listing;
  return { listing: before.current, isOld: before.current !== listing, problem: head.problem };
}

export function useCurves(metric: string): Curves {
  const curves = useMemo(() => new Curves(metric, (path, etag) => call("GET", path, { etag })), [metric]);
  useEffect(() => () => curves.close(), [curves]);
  return curves;
}
