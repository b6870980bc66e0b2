// The question before a job is moved: what changes, and which place the job gets.
//
// The queue may change while the dialog is open. So the plan is made from the newest rows each time, and what the person
// confirms is what the dialog shows at that moment.

import { useState } from "preact/hooks";
import { call, Problem } from "../../api/client.ts";
import type { QueuedJob } from "../../api/types.ts";
import { Buttons, Dialog } from "../../parts/dialog.tsx";
import { ProblemNotice } from "../../parts/notice.tsx";
import styles from "./move.module.css";
import { planOf, planText } from "./moves.ts";

interface Props {
  jobs: readonly QueuedJob[];
  job: QueuedJob;
  /** The index of the row that the job should have, at first. */
  index: number;
  ceiling: number;
  /** Gets what was done, or null for nothing. */
  onClose: (result: string | null) => void;
}

export function MoveDialog({ jobs, job, index, ceiling, onClose }: Props) {
  const first = jobs[0]?.position ?? 1;
  const last = first + jobs.length - 1;
  const [place, setPlace] = useState(String(first + index));
  const [problem, setProblem] = useState<Problem>();
  const [isBusy, setBusy] = useState(false);
  const wanted = Number(place);
  const isPlace = Number.isInteger(wanted) && wanted >= first && wanted <= last;
  const plan = isPlace ? planOf(jobs, job, wanted - first, ceiling) : null;

  async function move(event: Event): Promise<void> {
    event.preventDefault();
    if (plan?.kind !== "move") return;
    setBusy(true);
    try {
      await call("PATCH", `/v1/jobs/${job.id}`, { body: { priority: plan.priority } });
      onClose(`${job.name} has priority ${plan.priority} and comes to place ${plan.place}.`);
    } catch (error) {
      setProblem(error instanceof Problem ? error : new Problem(-1, "unknown", String(error)));
      setBusy(false);
    }
  }

  return (
    <Dialog title={`Move ${job.name}`} onClose={() => onClose(null)}>
      <form class={styles["form"]} onSubmit={move}>
        <label>
          To place
          <input
            type="number"
            min={first}
            max={last}
            value={place}
            aria-describedby="move-plan"
            onInput={(event) => setPlace(event.currentTarget.value)}
          />
        </label>
        <p id="move-plan" role="status">
          {plan === null ? `The places ${first} to ${last} are shown here.` : planText(plan, job, wanted, last)}
        </p>
        <ProblemNotice problem={problem} />
        <Buttons>
          <button type="button" onClick={() => onClose(null)}>
            Back
          </button>
          <button type="submit" class="primary" disabled={plan?.kind !== "move" || isBusy}>
            Move
          </button>
        </Buttons>
      </form>
    </Dialog>
  );
}
