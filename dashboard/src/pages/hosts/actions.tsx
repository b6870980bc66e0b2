// The actions of an admin on a host, and the problem if the api refuses one.

import { useState } from "preact/hooks";
import { call, Problem } from "../../api/client.ts";
import type { Host } from "../../api/types.ts";
import { Confirm } from "../../parts/dialog.tsx";
import { ProblemNotice } from "../../parts/notice.tsx";
import styles from "./actions.module.css";

type Action = "drain" | "undrain" | "forget";

export function Actions({ host, onDone }: { host: Host; onDone: () => void }) {
  const [question, setQuestion] = useState<"drain" | "forget">();
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem>();

  async function act(action: Action, requeue = false): Promise<void> {
    setQuestion(undefined);
    setBusy(true);
    setProblem(undefined);
    try {
      await requestAction(host.name, action, requeue);
      onDone();
    } catch (error) {
      setProblem(error instanceof Problem ? error : new Problem(-1, "unreadable", "Unreadable answer", String(error)));
    }
    setBusy(false);
  }

  return (
    <>
      <div class={styles["buttons"]}>
        {host.drained_at === null ? (
          <button type="button" disabled={isBusy} onClick={() => setQuestion("drain")}>
            Drain<span class="spoken"> {host.name}</span>
          </button>
        ) : (
          <button type="button" disabled={isBusy} onClick={() => void act("undrain")}>
            Undrain<span class="spoken"> {host.name}</span>
          </button>
        )}
        {!host.alive && (
          <button type="button" class="danger" disabled={isBusy} onClick={() => setQuestion("forget")}>
            Forget<span class="spoken"> {host.name}</span>
          </button>
        )}
      </div>
      {problem !== undefined && (
        <div class={styles["problem"]}>
          <ProblemNotice problem={problem} />
        </div>
      )}
      {question === "drain" && (
        <DrainQuestion
          host={host}
          onAnswer={(isYes, requeue) => (isYes ? void act("drain", requeue) : setQuestion(undefined))}
        />
      )}
      {question === "forget" && (
        <Confirm
          title={`Forget ${host.name}?`}
          action="Forget"
          onAnswer={(isYes) => (isYes ? void act("forget") : setQuestion(undefined))}
        >
          <p>The host and its slots leave the list. If the host comes back, it registers again and is not drained.</p>
        </Confirm>
      )}
    </>
  );
}

async function requestAction(name: string, action: Action, requeue: boolean): Promise<void> {
  const path = `/v1/hosts/${encodeURIComponent(name)}`;
  if (action === "forget") await call("DELETE", path);
  else if (action === "undrain") await call("POST", `${path}/undrain`);
  else await call("POST", `${path}/drain`, { body: { requeue } });
}

function DrainQuestion({ host, onAnswer }: { host: Host; onAnswer: (isYes: boolean, requeue: boolean) => void }) {
  const [requeue, setRequeue] = useState(false);
  const jobs = new Set(host.slots.map(({ job_id }) => job_id).filter((id) => id !== null)).size;
  return (
    <Confirm title={`Drain ${host.name}?`} action="Drain" onAnswer={(isYes) => onAnswer(isYes, requeue)}>
      <p>
        It gets no new jobs until you undrain it.{" "}
        {jobs === 0
          ? "No job runs there."
          : jobs === 1
            ? "One job runs there and continues to its end."
            : `${jobs} jobs run there and continue to their ends.`}
      </p>
      {jobs > 0 && (
        <label class={styles["requeue"]}>
          <input type="checkbox" checked={requeue} onChange={(event) => setRequeue(event.currentTarget.checked)} />
          Requeue: let its jobs save and move to other hosts
        </label>
      )}
    </Confirm>
  );
}
