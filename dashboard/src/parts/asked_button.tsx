// A button that asks before it does something, and shows why it could not.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Problem } from "../api/client.ts";
import { Confirm } from "./dialog.tsx";
import { ProblemNotice } from "./notice.tsx";

interface Props {
  text: string;
  question: string;
  /** The text of the button that confirms. */
  action: string;
  isHarmless?: boolean;
  work: () => Promise<void>;
  /** The consequences. */
  children: ComponentChildren;
}

export function AskedButton({ text, question, action, isHarmless = false, work, children }: Props) {
  const [isAsking, setAsking] = useState(false);
  const [problem, setProblem] = useState<Problem>();

  async function answer(isYes: boolean): Promise<void> {
    setAsking(false);
    if (!isYes) return;
    try {
      await work();
      setProblem(undefined);
    } catch (error) {
      setProblem(error instanceof Problem ? error : new Problem(-1, "unknown", String(error)));
    }
  }

  return (
    <>
      <button type="button" class={isHarmless ? undefined : "danger"} onClick={() => setAsking(true)}>
        {text}…
      </button>
      <ProblemNotice problem={problem} />
      {isAsking && (
        <Confirm title={question} action={action} isHarmless={isHarmless} onAnswer={(isYes) => void answer(isYes)}>
          {children}
        </Confirm>
      )}
    </>
  );
}
