// Cancel, pause and resume a whole study. Each action is confirmed, as it concerns many jobs.

import { useState } from "preact/hooks";
import { Problem, post } from "../../api/client.ts";
import type { Study } from "../../api/types.ts";
import { countText } from "../../format.ts";
import { Confirm } from "../../parts/dialog.tsx";
import { ProblemNotice } from "../../parts/notice.tsx";
import styles from "./actions.module.css";
import { isPaused, liveJobs } from "./state.ts";

type Action = "cancel" | "pause" | "resume";

const TITLES: Readonly<Record<Action, string>> = {
  cancel: "Cancel the study",
  pause: "Pause the study",
  resume: "Resume the study",
};

export function Actions({ study, onChange }: { study: Study; onChange: () => void }) {
  const [question, setQuestion] = useState<Action | null>(null);
  const [problem, setProblem] = useState<Problem>();
  const [isBusy, setBusy] = useState(false);

  async function carryOut(action: Action): Promise<void> {
    setBusy(true);
    setProblem(undefined);
    try {
      await post(`/v1/studies/${study.id}/${action}`);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
    }
    setBusy(false);
    onChange();
  }

  return (
    <>
      <span class={styles["actions"]}>
        {possible(study).map((action) => (
          <button
            key={action}
            type="button"
            class={action === "cancel" ? "danger" : undefined}
            disabled={isBusy}
            onClick={() => setQuestion(action)}
          >
            {action[0]?.toUpperCase() + action.slice(1)}
          </button>
        ))}
      </span>
      {problem !== undefined && (
        <div class={styles["problem"]}>
          <ProblemNotice problem={problem} />
        </div>
      )}
      {question !== null && (
        <Confirm
          title={TITLES[question]}
          action={TITLES[question]}
          onAnswer={(isYes) => {
            setQuestion(null);
            if (isYes) void carryOut(question);
          }}
        >
          {consequence(study, question)}
        </Confirm>
      )}
    </>
  );
}

/** The actions that would change something now. */
function possible(study: Study): Action[] {
  const live = liveJobs(study);
  const actions: Action[] = [];
  if (live > 0 && !isPaused(study)) actions.push("pause");
  if (study.paused > 0 || lost(study) > 0) actions.push("resume");
  if (live > 0) actions.push("cancel");
  return actions;
}

function lost({ counts }: Study): number {
  return (counts.failed ?? 0) + (counts.cancelled ?? 0);
}

function consequence(study: Study, action: Action): string {
  const live = liveJobs(study);
  if (action === "cancel")
    return `${countText(live, "job")} that ${live === 1 ? "has" : "have"} not ended will be cancelled.`;
  if (action === "pause")
    return `${countText(live, "job")} will wait. Running jobs save first and release their slots.`;
  const parts = [
    study.paused > 0 ? `${countText(study.paused, "paused job")} will continue.` : "",
    lost(study) > 0 ? `${countText(lost(study), "fresh job")} will replace failed or cancelled jobs.` : "",
  ];
  return parts.filter(Boolean).join(" ");
}
