// Sending a draft, so that it becomes one job: whoever clicks twice, or again after an answer that was lost, gets the
// job of the first time.

import { useRef, useState } from "preact/hooks";
import { call, Problem } from "../../api/client.ts";
import type { Job } from "../../api/types.ts";
import type { Draft } from "./draft.ts";

interface Submission {
  readonly isSending: boolean;
  /** Why the draft, as it is now, was not taken. */
  readonly problem: Problem | undefined;
  readonly submit: () => void;
}

export function useSubmission(draft: Draft, onAccepted: (job: Job) => void): Submission {
  const [isSending, setSending] = useState(false);
  const [refusal, setRefusal] = useState<{ draft: Draft; problem: Problem }>();
  const keys = useRef(new Map<string, string>());
  const isUnderWay = useRef(false); // at once, and not with the next drawing: of a double click both come before

  async function submit(): Promise<void> {
    if (isUnderWay.current) return;
    isUnderWay.current = true;
    setSending(true);
    setRefusal(undefined);
    try {
      const headers = { "Idempotency-Key": keyOf(draft, keys.current) };
      const { data } = await call<Job>("POST", "/v1/jobs", { body: draft, headers });
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

/** The api binds a key to what is sent with it, so a form has one for each content. */
function keyOf(draft: Draft, keys: Map<string, string>): string {
  const body = JSON.stringify(draft);
  const key = keys.get(body) ?? randomKey();
  keys.set(body, key);
  return key;
}

/** Not `randomUUID`, which browsers have on secure addresses alone. */
function randomKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
