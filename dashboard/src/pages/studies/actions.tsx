// The actions on a whole study: pause, resume, cancel, move, delete. Each is confirmed, as it concerns many jobs.

import { useState } from "preact/hooks";
import { call, Problem, post, remove } from "../../api/client.ts";
import { usePolled } from "../../api/polled.ts";
import type { Me, Study } from "../../api/types.ts";
import { WHAT_GOES } from "../../deleted.ts";
import { countText } from "../../format.ts";
import { AskedButton } from "../../parts/asked_button.tsx";
import { Menu } from "../../parts/menu.tsx";
import { ProblemNotice } from "../../parts/notice.tsx";
import { ProjectDialog } from "../../parts/project_dialog.tsx";
import { mayChange } from "../../rights.ts";
import { go } from "../../url.ts";
import styles from "./actions.module.css";
import { isPaused, liveJobs } from "./state.ts";

interface Props {
  study: Study;
  onChange: () => void;
}

export function Actions({ study, onChange }: Props) {
  const [saves, setSaves] = useState(false);
  const me = usePolled<Me>("/v1/me", { every_s: Number.POSITIVE_INFINITY }).data;
  const request = async (verb: string): Promise<void> => {
    try {
      await post(`/v1/studies/${study.id}/${verb}`);
    } finally {
      onChange();
    }
  };
  const [live, lost] = [liveJobs(study), (study.counts.failed ?? 0) + (study.counts.cancelled ?? 0)];
  return (
    <div class={styles["actions"]}>
      {live > 0 && !isPaused(study) && (
        <AskedButton
          text="Pause"
          question={`Pause ${study.name}?`}
          action="Pause the study"
          isHarmless
          work={() => request("pause")}
        >
          {countText(live, "job")} will wait. Running jobs save first and release their slots.
        </AskedButton>
      )}
      {(study.paused > 0 || lost > 0) && (
        <AskedButton
          text="Resume"
          question={`Resume ${study.name}?`}
          action="Resume the study"
          isHarmless
          work={() => request("resume")}
        >
          {study.paused > 0 && `${countText(study.paused, "paused job")} will continue. `}
          {lost > 0 && `${countText(lost, "fresh job")} will replace failed or cancelled jobs.`}
        </AskedButton>
      )}
      {live > 0 && (
        <AskedButton
          text="Cancel"
          question={`Cancel ${study.name}?`}
          action="Cancel the study"
          work={() => request(saves ? "cancel?save=true" : "cancel")}
        >
          <p>
            {countText(live, "job")} that {live === 1 ? "has" : "have"} not ended will be cancelled.
          </p>
          <label>
            <input type="checkbox" checked={saves} onInput={() => setSaves(!saves)} /> Save checkpoints first, from
            which new jobs can continue
          </label>
        </AskedButton>
      )}
      {mayChange(me, study) && <PutAwayMenu study={study} onChange={onChange} />}
    </div>
  );
}

/** What takes an ended study elsewhere. The menu is there from the start, so that nothing moves when the study ends. */
function PutAwayMenu({ study, onChange }: Props) {
  return (
    <Menu title="⋯" label="Move or delete" side="right">
      {study.complete ? (
        <>
          <MoveButton study={study} onChange={onChange} />
          <AskedButton
            text="Delete"
            question={`Delete ${study.name}?`}
            action={`Delete the study and ${countText(study.jobs, "job")}`}
            work={async () => {
              await remove(`/v1/studies/${study.id}`);
              go("/studies");
            }}
          >
            {WHAT_GOES}
          </AskedButton>
        </>
      ) : (
        <p class="muted">A study can be moved or deleted after its end.</p>
      )}
    </Menu>
  );
}

function MoveButton({ study, onChange }: Props) {
  const [isAsking, setAsking] = useState(false);
  const [problem, setProblem] = useState<Problem>();
  const move = async (project: string): Promise<void> => {
    setAsking(false);
    try {
      await call("PATCH", `/v1/studies/${study.id}`, { body: { project } });
      setProblem(undefined);
    } catch (error) {
      setProblem(error instanceof Problem ? error : new Problem(-1, "unknown", String(error)));
    }
    onChange();
  };
  return (
    <>
      <button type="button" onClick={() => setAsking(true)}>
        Move…
      </button>
      <ProblemNotice problem={problem} />
      {isAsking && (
        <ProjectDialog
          title={`Move ${study.name}`}
          present={[study.project]}
          onClose={() => setAsking(false)}
          onMove={(project) => void move(project)}
        />
      )}
    </>
  );
}
