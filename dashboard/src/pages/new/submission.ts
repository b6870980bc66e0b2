// Submits a draft so that it becomes one job or study: a second click, or a retry after a lost answer, gets the same one.

import { useRef, useState } from "preact/hooks";
import { call, Problem, randomKey } from "../../api/client.ts";
import type { Draft } from "./draft.ts";

interface Submission {
  readonly isSending: boolean;
  /** Why the current draft was refused. */
  readonly problem: Problem | undefined;
  readonly submit: () => void;
}

export function useSubmission(path: string, draft: Draft, onAccepted: (accepted: { id: string }) => void): Submission {
  const [isSending, setSending] = useState(false);
  const [refusal, setRefusal] = useState<{ draft: Draft; problem: Problem }>();
  const keys = useRef(new Map<string, string>());
  const isUnderWay = useRef(false); // a ref, as both clicks of a double click come before the next render

  async function submit(): Promise<void> {
    if (isUnderWay.current) return;
    isUnderWay.current = true;
    setSending(true);
    setRefusal(undefined);
    try {
      const headers = { "Idempotency-Key": keyOf(draft, keys.current) };
      const { data } = await call<{ id: string }>("POST", path, { body: draft, headers });
      onAccepted(data);
    } catch (error) {
      const problem =
        error instanceof Problem ? error : new Problem(-1, "unreadable", "Unreadable answer", String(error));
      setRefusal({ draft, problem });
    }
    isUnderWay.current = false;
    setSending(false);
  }

  const problem = refusal?.draft === draft ? refusal.problem : undefined;
  return { isSending, problem, submit: () => void submit() };
}

/** The api binds an idempotency key to the submitted spec, so each content of the form has its own key. */
function keyOf(draft: Draft, keys: Map<string, string>): string {
  const body = JSON.stringify(draft);
  const key = keys.get(body) ?? randomKey();
  keys.set(body, key);
  return key;
}
