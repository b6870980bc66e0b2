// The actions on a job: pause, resume, cancel, edit, compare, clone.

import { useState } from "preact/hooks";
import { Problem, post } from "../../api/client.ts";
import type { Job } from "../../api/types.ts";
import { Confirm } from "../../parts/dialog.tsx";
import { ProblemNotice } from "../../parts/notice.tsx";
import { isTerminal } from "../../parts/status.tsx";
import { EditButton } from "./edit.tsx";
import styles from "./header.module.css";
import { useEver } from "./use_job.ts";

type Verb = "cancel" | "pause" | "resume";

export function Actions({ job, onChange }: { job: Job; onChange: () => void }) {
  const [isAsking, setAsking] = useState(false);
  const [problem, setProblem] = useState<Problem>();

  async function requestAction(verb: Verb): Promise<void> {
    try {
      await post(`/v1/jobs/${job.id}/${verb}`);
      setProblem(undefined);
    } catch (error) {
      setProblem(error instanceof Problem ? error : new Problem(-1, "unknown", String(error)));
    }
    onChange();
  }

  const isSteerable = !isTerminal(job.status) && job.cancel_requested_at === null;
  const wasSteerable = useEver(isSteerable);
  return (
    <div class={styles["actions"]}>
      <EditButton job={job} onChange={onChange} />
      <a class={styles["action"]} href={`/compare?jobs=${job.id}`}>
        Compare
      </a>
      <a class={styles["action"]} href={`/new?clone=${job.id}`}>
        Clone
      </a>
      {wasSteerable && (
        <span class={isSteerable ? styles["group"] : styles["gone"]}>
          <PauseButton isPaused={job.paused_at !== null} onRequest={requestAction} />
          <button type="button" class="danger" onClick={() => setAsking(true)}>
            Cancel…
          </button>
        </span>
      )}
      <ProblemNotice problem={problem} />
      {isAsking && (
        <Confirm
          title={`Cancel ${job.name}?`}
          action="Cancel the job"
          onAnswer={(isYes) => {
            setAsking(false);
            if (isYes) void requestAction("cancel");
          }}
        >
          {consequences(job)}
        </Confirm>
      )}
    </div>
  );
}

/** The button that pauses a job, or resumes a paused one. */
function PauseButton({ isPaused, onRequest }: { isPaused: boolean; onRequest: (verb: Verb) => void }) {
  if (isPaused)
    return (
      <button type="button" title="The job continues from its newest checkpoint" onClick={() => onRequest("resume")}>
        Resume
      </button>
    );
  return (
    <button
      type="button"
      title="The job saves a checkpoint, releases its slots and waits"
      onClick={() => onRequest("pause")}
    >
      Pause
    </button>
  );
}

function consequences(job: Job): string {
  if (job.status === "queued") return "The job leaves the queue and will not run. You can submit a clone at any time.";
  const slots = job.gpus === 1 ? "its slot" : `its ${job.gpus} slots`;
  return `The job ends and releases ${slots}. To continue it later, pause it instead.`;
}
