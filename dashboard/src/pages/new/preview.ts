// What a draft would become, asked of the api as somebody types: the plan, the quote, or what is wrong.

import { useEffect, useRef, useState } from "preact/hooks";
import { call, Problem } from "../../api/client.ts";
import { pollDelayMs } from "../../api/poll_delay.ts";
import type { Preview } from "../../api/types.ts";
import type { Draft } from "./draft.ts";

const PAUSE_MS = 300; // of typing, before the api is asked

export interface Previewed {
  /** The newest answer that was no problem, and the draft that it is of. */
  readonly preview: Preview | undefined;
  readonly previewedDraft: Draft | undefined;
  /** What is wrong with the newest draft that was answered. */
  readonly problem: Problem | undefined;
  /** Whether the draft has changed since. */
  readonly isPending: boolean;
}

/** Follow a draft; null is one that is not worth asking about. Answers that come late are dropped. */
export function usePreview(draft: Draft | null): Previewed {
  const [answer, setAnswer] = useState<Omit<Previewed, "isPending">>(NONE);
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
      const result = await answerTo(sentDraft, abort.signal);
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

async function answerTo(draft: Draft, signal: AbortSignal): Promise<Omit<Previewed, "isPending"> | Problem> {
  try {
    const { data } = await call<Preview>("POST", "/v1/jobs?dry_run=true", { body: draft, signal });
    return { preview: data, previewedDraft: draft, problem: undefined };
  } catch (error) {
    return error instanceof Problem ? error : new Problem(-1, "unreadable", "Unreadable answer", String(error));
  }
}
