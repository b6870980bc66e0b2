// The dialog that changes a submitted job: its name, its labels; until its end its priority and its time limit, then its project.

import { useState } from "preact/hooks";
import { call, Problem } from "../../api/client.ts";
import { usePolled } from "../../api/polled.ts";
import type { Job, Me } from "../../api/types.ts";
import { Buttons, Dialog } from "../../parts/dialog.tsx";
import { ProblemNotice } from "../../parts/notice.tsx";
import { ProjectOptions } from "../../parts/project_options.tsx";
import { isTerminal } from "../../parts/status.tsx";
import { mayChange } from "../../rights.ts";
import { changesOf, type Draft, draftOf } from "./changes.ts";
import styles from "./edit.module.css";

export function EditButton({ job, onChange }: { job: Job; onChange: () => void }) {
  const me = usePolled<Me>("/v1/me", { every_s: Number.POSITIVE_INFINITY }).data;
  const [isOpen, setOpen] = useState(false);
  if (!mayChange(me, job)) return null;
  return (
    <>
      <button type="button" onClick={() => setOpen(true)}>
        Edit…
      </button>
      {isOpen && (
        <EditDialog
          job={job}
          onClose={() => {
            setOpen(false);
            onChange();
          }}
        />
      )}
    </>
  );
}

function EditDialog({ job, onClose }: { job: Job; onClose: () => void }) {
  const [before] = useState(() => draftOf(job)); // the job may change while the dialog is open
  const [draft, setDraft] = useState(before);
  const [problem, setProblem] = useState<Problem>();
  const set = (field: keyof Draft) => (value: string) => setDraft({ ...draft, [field]: value });
  const wrong = new Set(problem?.errors.map((error) => error.field.split(".")[0]));

  async function save(event: Event): Promise<void> {
    event.preventDefault();
    try {
      await call("PATCH", `/v1/jobs/${job.id}`, { body: changesOf(before, draft) });
      onClose();
    } catch (error) {
      setProblem(error instanceof Problem ? error : new Problem(-1, "unknown", String(error)));
    }
  }

  return (
    <Dialog title={`Edit ${before.name}`} onClose={onClose}>
      <form class={styles["form"]} onSubmit={save}>
        <TextField label="Name" value={draft.name} isWrong={wrong.has("name")} onEdit={set("name")} />
        {isTerminal(job.status) ? (
          <label>
            Project
            <select
              value={draft.project}
              aria-invalid={wrong.has("project")}
              onChange={(event) => set("project")(event.currentTarget.value)}
            >
              <ProjectOptions present={before.project} />
            </select>
          </label>
        ) : (
          <>
            <TextField
              label="Priority"
              about="0 to 100: the queue begins with the highest. The project can have a ceiling."
              value={draft.priority}
              isWrong={wrong.has("priority")}
              onEdit={set("priority")}
            />
            <TextField
              label="Time limit, s"
              about="Of each attempt, also of the present one: if that has already taken longer, it ends. Empty: no limit."
              value={draft.limit}
              isWrong={wrong.has("time_limit_s")}
              onEdit={set("limit")}
            />
          </>
        )}
        <label>
          Labels
          <textarea
            rows={4}
            spellcheck={false}
            value={draft.labels}
            aria-invalid={wrong.has("labels")}
            aria-describedby="edit-labels"
            onInput={(event) => set("labels")(event.currentTarget.value)}
          />
        </label>
        <p id="edit-labels" class="muted">
          One on each line: key=value.
        </p>
        <ProblemNotice problem={problem} />
        <Buttons>
          <button type="button" onClick={onClose}>
            Back
          </button>
          <button type="submit" class="primary">
            Save
          </button>
        </Buttons>
      </form>
    </Dialog>
  );
}

interface FieldProps {
  label: string;
  about?: string;
  value: string;
  isWrong: boolean;
  onEdit: (value: string) => void;
}

function TextField({ label, about, value, isWrong, onEdit }: FieldProps) {
  const id = `edit-${label.replaceAll(/\W+/g, "-")}`;
  return (
    <>
      <label>
        {label}
        <input
          type="text"
          autocomplete="off"
          value={value}
          aria-invalid={isWrong}
          aria-describedby={about && id}
          onInput={(event) => onEdit(event.currentTarget.value)}
        />
      </label>
      {about && (
        <p id={id} class="muted">
          {about}
        </p>
      )}
    </>
  );
}
