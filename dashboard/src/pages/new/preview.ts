// The preview of a draft, requested while a person types: what would be submitted, or the errors.

import { useEffect, useRef, useState } from "preact/hooks";
import { call, Problem } from "../../api/client.ts";
import { pollDelayMs } from "../../api/poll_delay.ts";
import type { Draft } from "./draft.ts";

const PAUSE_MS = 300; // without typing, before the request

export interface Previewed<T> {
  /** The newest answer without a problem, and its draft. */
  readonly preview: T | undefined;
  readonly previewedDraft: Draft | undefined;
  /** The problem of the newest answered draft. */
  readonly problem: Problem | undefined;
  /** Whether the draft has changed since the answer. */
  readonly isPending: boolean;
}

/** Preview what would be submitted to `path`; null requests nothing. Late answers are dropped. */
export function usePreview<T>(path: string, draft: Draft | null): Previewed<T> {
  const [answer, setAnswer] = useState<Omit<Previewed<T>, "isPending">>(NONE);
  const [answeredBody, setAnsweredBody] = useState<string | null>(null);
  const body = draft === null ? null : JSON.stringify(draft);
  const isFirst = useRef(true);
  useEffect(() => {
    if (body === null) {
      setAnswer(NONE);
      setAnsweredBody(null);
      return;
    }
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout>;
    let failures = 0;
    const fetchPreview = async (): Promise<void> => {
      const sentDraft = JSON.parse(body) as Draft;
      const result = await answerTo<T>(path, sentDraft, abort.signal);
      if (abort.signal.aborted) return;
      setAnswer((before) => (result instanceof Problem ? { ...before, problem: result } : result));
      setAnsweredBody(body);
      if (!(result instanceof Problem) || !(result.isAway || result.status === 429)) return;
      failures += 1;
      const ms = pollDelayMs({ everyMs: PAUSE_MS, tookMs: 0, failures, problem: result });
      if (ms !== null) timer = setTimeout(fetchPreview, ms);
    };
    timer = setTimeout(fetchPreview, isFirst.current ? 0 : PAUSE_MS);
    isFirst.current = false;
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [body]);
  return { ...answer, isPending: body !== answeredBody };
}

const NONE = { preview: undefined, previewedDraft: undefined, problem: undefined } as const;

async function answerTo<T>(
  path: string,
  draft: Draft,
  signal: AbortSignal,
): Promise<Omit<Previewed<T>, "isPending"> | Problem> {
  try {
    const { data } = await call<T>("POST", `${path}?dry_run=true`, { body: draft, signal });
    return { preview: data, previewedDraft: draft, problem: undefined };
  } catch (error) {
    return error instanceof Problem ? error : new Problem(-1, "unreadable", "Unreadable answer", String(error));
  }
}
