// Polls of the api, with entity tags: an answer that has not changed costs almost nothing.
//
// Components that show the same path share one poll. Polls stop while the page is hidden, slow down when an answer is
// slow, and continue when the api is back. The last answer stays on the page meanwhile.

import { type Signal, signal } from "@preact/signals";
import { useEffect, useReducer } from "preact/hooks";
import { call, connection } from "./client.ts";
import { pollDelayMs } from "./poll_delay.ts";
import { Problem } from "./problem.ts";

export interface Polled<T> {
  /** The newest answer; undefined before the first one. */
  readonly data: T | undefined;
  /** Why the last request failed. `data` is older then. */
  readonly problem: Problem | undefined;
  /** Ask again now. */
  readonly refresh: () => void;
}

const KEPT_MS = 60_000; // so that "back" shows the last page at once

class Poll<T> {
  readonly data: Signal<T | undefined> = signal(undefined);
  readonly problem: Signal<Problem | undefined> = signal(undefined);
  #path: string;
  #etag: string | null = null;
  #periods = new Map<object, number>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #abort: AbortController | undefined;
  #isQueued = false;
  #tookMs = 0;
  #failures = 0;

  constructor(path: string) {
    this.#path = path;
  }

  join(subscriber: object, everyMs: number): void {
    const isFirst = this.#periods.size === 0;
    this.#periods.set(subscriber, everyMs);
    if (isFirst) {
      clearTimeout(this.#timer); // the poll may have been about to be removed
      addEventListener("visibilitychange", this.refresh);
      this.refresh();
    }
  }

  leave(subscriber: object): void {
    this.#periods.delete(subscriber);
    if (this.#periods.size > 0) return;
    removeEventListener("visibilitychange", this.refresh);
    this.#abort?.abort();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => polls.delete(this.#path), KEPT_MS);
  }

  /** Ask now. While an answer is on its way, ask once more after it. */
  readonly refresh = (): void => {
    if (document.hidden || this.#periods.size === 0) return;
    if (this.#abort !== undefined) {
      this.#isQueued = true;
      return;
    }
    clearTimeout(this.#timer);
    void this.#ask();
  };

  async #ask(): Promise<void> {
    const abort = new AbortController();
    this.#abort = abort;
    const startedAt = performance.now();
    try {
      const answer = await call<T>("GET", this.#path, { etag: this.#etag, signal: abort.signal });
      if (answer.status !== 304) {
        this.data.value = answer.data;
        this.#etag = answer.etag;
      }
      this.problem.value = undefined;
      this.#failures = 0;
    } catch (error) {
      if (!abort.signal.aborted) {
        this.problem.value =
          error instanceof Problem ? error : new Problem(-1, "unreadable", "Unreadable answer", String(error));
        this.#failures += 1;
      }
    }
    this.#abort = undefined;
    this.#tookMs = performance.now() - startedAt;
    this.#scheduleNext();
  }

  #scheduleNext(): void {
    if (this.#periods.size === 0) return;
    if (this.#isQueued) {
      this.#isQueued = false;
      this.refresh();
      return;
    }
    const everyMs = Math.min(...this.#periods.values());
    const ms = pollDelayMs({ everyMs, tookMs: this.#tookMs, failures: this.#failures, problem: this.problem.peek() });
    if (ms !== null) this.#timer = setTimeout(this.refresh, ms);
  }
}

const polls = new Map<string, Poll<unknown>>();

function pollOf<T>(path: string): Poll<T> {
  let poll = polls.get(path);
  if (poll === undefined) {
    poll = new Poll<unknown>(path);
    polls.set(path, poll);
  }
  return poll as Poll<T>;
}

// After a sign-in, or when the api is back, failed polls ask at once.
connection.subscribe((now) => {
  if (now.state === "ok") for (const poll of polls.values()) if (poll.problem.peek() !== undefined) poll.refresh();
});

/** Poll `path`; null polls nothing. `every_s` of Infinity asks once, and again only after a failure. */
export function usePolled<T>(path: string | null, { every_s = 2 }: { every_s?: number } = {}): Polled<T> {
  const [, show] = useReducer<number, void>((count) => count + 1, 0);
  useEffect(() => {
    if (path === null) return;
    const poll = pollOf<T>(path);
    const subscriber = {};
    const stop = [poll.data.subscribe(() => show()), poll.problem.subscribe(() => show())];
    poll.join(subscriber, every_s * 1000);
    return () => {
      for (const end of stop) end();
      poll.leave(subscriber);
    };
  }, [path, every_s]);
  if (path === null) return { data: undefined, problem: undefined, refresh: () => {} };
  const poll = pollOf<T>(path);
  return { data: poll.data.peek(), problem: poll.problem.peek(), refresh: poll.refresh };
}
