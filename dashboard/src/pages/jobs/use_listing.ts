// The jobs of a view on the page: polled, told of, and kept in view until those of another view have come.

import { useEffect, useMemo, useRef } from "preact/hooks";
import { call, get } from "../../api/client.ts";
import { usePolled } from "../../api/polled.ts";
import type { Problem } from "../../api/problem.ts";
import { useStream } from "../../api/stream.ts";
import type { Job, Listed } from "../../api/types.ts";
import { Curves } from "./curves.ts";
import { Listing, PAGE_ROWS } from "./listing.ts";
import type { StreamedProgress, StreamedState } from "./row.ts";
import { listPath, streamPath, type View } from "./view.ts";

const EVERY_S = 10; // the stream tells what changes; this is so that nothing stays wrong

export interface Jobs {
  readonly listing: Listing;
  /** Whether what is shown is of the view before, while that of this one is on its way. */
  readonly isOld: boolean;
  readonly problem: Problem | undefined;
}

export function useListing(view: View): Jobs {
  const path = listPath(view, PAGE_ROWS);
  const refresh = useRef(() => {});
  // The path is all that makes it another list.
  const listing = useMemo(() => new Listing(view, { read: get, pollHead: () => refresh.current() }), [path]);
  // The stream is opened first: what changes between the two is told twice then, and not never.
  useStream(streamPath(view), {
    state: (told: StreamedState) => listing.takeState(told),
    progress: (told: StreamedProgress) => listing.takeProgress(told),
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
