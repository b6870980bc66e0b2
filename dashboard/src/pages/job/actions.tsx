// The actions on a job: pause, resume, cancel, edit, compare, run again, train on, continue, clone, archive, delete.

import { useState } from "preact/hooks";
import { call, Problem, post, randomKey } from "../../api/client.ts";
import { usePolled } from "../../api/polled.ts";
import type { Job, Me } from "../../api/types.ts";
import { deleteJob, WHAT_GOES } from "../../deleted.ts";
import { isScript } from "../../metrics.ts";
import { AskedButton } from "../../parts/asked_button.tsx";
import { Menu } from "../../parts/menu.tsx";
import { ProblemNotice } from "../../parts/notice.tsx";
import { isTerminal } from "../../parts/status.tsx";
import { mayChange } from "../../rights.ts";
import { go } from "../../url.ts";
import { EditButton } from "./edit.tsx";
import styles from "./header.module.css";
import { useEver } from "./use_job.ts";

type Verb = "cancel" | "cancel?save=true" | "pause" | "resume";

export function Actions({ job, onChange }: { job: Job; onChange: () => void }) {
  const [problem, setProblem] = useState<Problem>();
  const [saves, setSaves] = useState(false);
  const me = usePolled<Me>("/v1/me", { every_s: Number.POSITIVE_INFINITY }).data;

  const requestAction = (verb: Verb): Promise<void> => request(() => post(`/v1/jobs/${job.id}/${verb}`));

  async function request(act: () => Promise<unknown>): Promise<void> {
    try {
      await act();
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
      <a class={styles["action"]} href={`/new?clone=${job.id}`} title="A new job with changes to the spec of this one">
        Clone
      </a>
      {isTerminal(job.status) ? (
        <span class={styles["group"]}>
          {me?.scope !== "read" && job.run_id == null && <AgainButton job={job} />}
          {hasWeights(job) && (
            <a
              class={styles["action"]}
              href={`/new?clone=${job.id}&from=weights`}
              title="A new job that starts from the weights of this one"
            >
              Train on
            </a>
          )}
          {mayContinue(job) && Boolean(job.checkpoint_bytes) && (
            <a
              class={styles["action"]}
              href={`/new?clone=${job.id}&from=newest`}
              title="A new job that goes on from the newest checkpoint of this one, with its optimizer and epoch"
            >
              Continue
            </a>
          )}
        </span>
      ) : (
        wasSteerable && (
          <span class={isSteerable ? styles["group"] : styles["gone"]}>
            <PauseButton isPaused={job.paused_at !== null} onRequest={requestAction} />
            <AskedButton
              text="Cancel"
              question={`Cancel ${job.name}?`}
              action="Cancel the job"
              work={() => requestAction(saves ? "cancel?save=true" : "cancel")}
            >
              <p>{consequences(job)}</p>
              {job.status !== "queued" && (
                <label>
                  <input type="checkbox" checked={saves} onInput={() => setSaves(!saves)} /> Save a checkpoint first,
                  from which a new job can continue
                </label>
              )}
            </AskedButton>
          </span>
        )
      )}
      {mayChange(me, job) && (
        <PutAwayMenu
          job={job}
          onArchive={() => request(() => call("PATCH", `/v1/jobs/${job.id}`, { body: { archived: !job.archived } }))}
        />
      )}
      <ProblemNotice problem={problem} />
    </div>
  );
}

/** What takes an ended job out of the list. The menu is there from the start, so that nothing moves when the job ends. */
function PutAwayMenu({ job, onArchive }: { job: Job; onArchive: () => void }) {
  return (
    <Menu title="⋯" label="Archive or delete" side="right">
      {isTerminal(job.status) ? (
        <>
          <button type="button" title="Lists leave archived jobs out. Nothing else changes" onClick={onArchive}>
            {job.archived ? "Bring back" : "Archive"}
          </button>
          <AskedButton
            text="Delete"
            question={`Delete ${job.name}?`}
            action="Delete the job"
            work={async () => {
              await deleteJob(job);
              go("/");
            }}
          >
            {WHAT_GOES}
          </AskedButton>
        </>
      ) : (
        <p class="muted">A job can be archived or deleted after its end.</p>
      )}
    </Menu>
  );
}

/** The button that submits the same spec once more, and shows the new job. It has one key until it is left, so that a
 *  click after a lost answer gets the job of the first one. */
function AgainButton({ job }: { job: Job }) {
  const [key] = useState(randomKey);
  const submit = async (): Promise<void> => {
    const options = { body: {}, headers: { "Idempotency-Key": key } };
    go(`/jobs/${(await call<Job>("POST", `/v1/jobs/${job.id}/clone`, options)).data.id}`);
  };
  return (
    <AskedButton text="Run again" question={`Run ${job.name} again?`} action="Submit it" isHarmless work={submit}>
      A new job gets the same spec. To change something, clone it instead.
    </AskedButton>
  );
}

/** Whether another job can continue from a checkpoint of this one, if there is any. */
export function mayContinue({ status, probe, run_id, artifacts_removed_at: removedAt }: Job): boolean {
  return isTerminal(status) && probe === null && run_id == null && removedAt === null;
}

/** Whether another job can start from its weights. */
function hasWeights({ spec, status, probe, artifacts_removed_at: removedAt }: Job): boolean {
  return status === "succeeded" && probe === null && removedAt === null && !isScript(spec);
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
