// Live streams of the api (docs/live.md). They are read with fetch: EventSource does not say why it ended, and it does
// not resume after an answer that is not a stream.

import { createParser } from "eventsource-parser";
import { useEffect, useRef } from "preact/hooks";
import { send } from "./client.ts";
import { pollDelayMs } from "./poll_delay.ts";
import { Problem } from "./problem.ts";

const SILENCE_MS = 40_000; // the api sends something every 15 seconds; a longer silence means that it is gone

/** The handler of each kind of event; docs/live.md describes `data`. */
export type Handlers = Readonly<Record<string, (data: never) => void>>;

/** Follow a stream while the page is visible; null follows nothing. It reconnects and misses no event. */
export function useStream(path: string | null, handlers: Handlers): void {
  const newest = useRef(handlers);
  newest.current = handlers;
  useEffect(() => {
    if (path === null) return;
    let abort = new AbortController();
    let lastId = "";
    const follow = (): void => {
      abort.abort();
      abort = new AbortController();
      if (document.hidden) return; // a browser has six connections to a host, shared by all its tabs
      void followStream(path, lastId, abort.signal, (kind, data, id) => {
        if (id !== undefined) lastId = id;
        (newest.current[kind] as ((data: unknown) => void) | undefined)?.(data);
      });
    };
    addEventListener("visibilitychange", follow);
    follow();
    return () => {
      removeEventListener("visibilitychange", follow);
      abort.abort();
    };
  }, [path]);
}

type OnEvent = (kind: string, data: unknown, id: string | undefined) => void;

/** Read a stream again and again, from the last event, until it is complete or `signal` says so. */
export async function followStream(path: string, from: string, signal: AbortSignal, onEvent: OnEvent): Promise<void> {
  let lastId = from;
  let failures = 0;
  while (!signal.aborted) {
    let problem: Problem | undefined;
    try {
      const headers = { Accept: "text/event-stream", ...(lastId === "" ? {} : { "Last-Event-ID": lastId }) };
      const response = await send("GET", path, { headers, signal });
      if (response.status === 204) return; // the stream is complete
      failures = 0;
      await readEvents(response, (kind, data, id) => {
        lastId = id ?? lastId;
        onEvent(kind, data, id);
      });
    } catch (error) {
      if (signal.aborted) return;
      problem = error instanceof Problem ? error : new Problem(0, "away", "The stream was interrupted", String(error));
    }
    if (problem?.status === 422 && lastId !== "") {
      lastId = ""; // this version of the service does not know the id: start again
      problem = undefined;
    } else if (problem !== undefined && !problem.isAway && problem.status !== 429 && problem.status !== 401) {
      return;
    }
    failures += 1;
    const ms = pollDelayMs({
      everyMs: 500,
      tookMs: 0,
      failures,
      problem: problem?.status === 401 ? undefined : problem,
    });
    await new Promise((resume) => setTimeout(resume, problem?.status === 401 ? 5000 : (ms ?? 500)));
  }
}

async function readEvents(response: Response, onEvent: OnEvent): Promise<void> {
  if (response.body === null) return;
  const parser = createParser({
    onEvent: (event) => onEvent(event.event ?? "message", JSON.parse(event.data), event.id),
  });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const watchdog = setTimeout(() => void reader.cancel(), SILENCE_MS);
    const { done, value } = await reader.read().finally(() => clearTimeout(watchdog));
    if (done) return;
    parser.feed(value);
  }
}
