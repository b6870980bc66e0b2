// Reads a log while it is shown. Used by `log_panel.tsx`.

import { useEffect, useMemo, useReducer } from "preact/hooks";
import { call } from "../../../api/client.ts";
import { pollDelayMs } from "../../../api/poll_delay.ts";
import type { LogView } from "../../../api/types.ts";
import { type FetchPage, LogFeed, type Source } from "./feed.ts";

const EVERY_MS = 1000; // the service gets the ranks' lines about once a second

/** The feed of a source. It is polled while `isLive`, and read once more after the end. */
export function useLog(source: Source, isLive: boolean): LogFeed {
  const [, show] = useReducer<number, void>((count) => count + 1, 0);
  const feed = useMemo(() => new LogFeed(source, pageFetcher()), [JSON.stringify(source)]);
  useEffect(() => {
    const abort = new AbortController();
    feed.onChange = () => show();
    void followLog(feed, isLive, abort.signal);
    return () => {
      feed.onChange = () => {};
      abort.abort();
    };
  }, [feed, isLive]);
  return feed;
}

async function followLog(feed: LogFeed, isLive: boolean, signal: AbortSignal): Promise<void> {
  let failures = 0;
  while (!signal.aborted) {
    if (!document.hidden) await feed.newer();
    const { problem } = feed.reading;
    failures = problem === undefined ? 0 : failures + 1;
    const everyMs = isLive || document.hidden ? EVERY_MS : Number.POSITIVE_INFINITY;
    const ms = pollDelayMs({ everyMs, tookMs: 0, failures, problem });
    if (ms === null) return;
    await new Promise((resume) => setTimeout(resume, ms));
  }
}

/** Makes a `FetchPage` that repeats a request with the entity tag of its last answer. */
export function pageFetcher(): FetchPage {
  let last = { path: "", etag: null as string | null };
  return async (path) => {
    const { data, etag, status } = await call<LogView>("GET", path, { etag: last.path === path ? last.etag : null });
    last = { path, etag };
    return status === 304 ? null : data;
  };
}
