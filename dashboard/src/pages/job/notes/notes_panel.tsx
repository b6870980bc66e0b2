// The notes on a job: shown as Markdown, and edited with a preview by those who may change the job.

import { useState } from "preact/hooks";
import { call, Problem } from "../../../api/client.ts";
import { usePolled } from "../../../api/polled.ts";
import type { Job, Me } from "../../../api/types.ts";
import { ago, moment, number } from "../../../format.ts";
import { Markdown } from "../../../parts/markdown.tsx";
import { Notice, ProblemNotice } from "../../../parts/notice.tsx";
import { Panel } from "../../../parts/panel.tsx";
import { mayChange } from "../../../rights.ts";
import styles from "./notes.module.css";

const LONGEST = 20_000;

export function NotesPanel({ job, onChange }: { job: Job; onChange: () => void }) {
  const me = usePolled<Me>("/v1/me", { every_s: Number.POSITIVE_INFINITY }).data;
  const [isEditing, setEditing] = useState(false);
  const close = (isChanged: boolean): void => {
    setEditing(false);
    if (isChanged) onChange();
  };
  const edit = mayChange(me, job) && !isEditing && (
    <button type="button" onClick={() => setEditing(true)}>
      {job.notes ? "Edit" : "Write notes"}
    </button>
  );
  return (
    <Panel title="Notes" tools={edit || undefined}>
      {isEditing ? <Editor job={job} onClose={close} /> : <Shown job={job} />}
    </Panel>
  );
}

function Shown({ job: { notes, notes_at: changedAt } }: { job: Job }) {
  if (!notes) return <p class="muted">There are no notes yet: what you saw, what to try next.</p>;
  return (
    <>
      <Markdown text={notes} />
      {changedAt && (
        <p class={styles["at"]}>
          Changed{" "}
          <time dateTime={changedAt} title={moment(changedAt)}>
            {ago(changedAt)}
          </time>
        </p>
      )}
    </>
  );
}

function Editor({ job, onClose }: { job: Job; onClose: (isChanged: boolean) => void }) {
  const [before] = useState(job); // others may change the notes meanwhile
  const [text, setText] = useState(before.notes ?? "");
  const [isPreview, setPreview] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem>();

  async function save(event: Event): Promise<void> {
    event.preventDefault();
    setBusy(true);
    try {
      await call("PATCH", `/v1/jobs/${job.id}`, { body: { notes: text } });
      onClose(true);
    } catch (error) {
      setProblem(error instanceof Problem ? error : new Problem(-1, "unknown", String(error)));
      setBusy(false);
    }
  }

  return (
    <form class={styles["form"]} onSubmit={save}>
      {job.notes_at !== before.notes_at && (
        <Notice kind="warn" title="Somebody has changed these notes meanwhile">
          What you save replaces theirs.
        </Notice>
      )}
      {isPreview ? (
        <section class={styles["preview"]} aria-label="Preview of the notes">
          {text.trim() === "" ? <p class="muted">Nothing to show</p> : <Markdown text={text} />}
        </section>
      ) : (
        <label>
          <span class="muted">Markdown</span>
          <textarea
            rows={14}
            maxLength={LONGEST}
            value={text}
            aria-invalid={problem?.errors.some(({ field }) => field === "notes") ?? false}
            ref={(area) => area?.focus()}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </label>
      )}
      {problem?.isAway && <p role="alert">The api does not answer. The notes were not saved; their text stays here.</p>}
      <ProblemNotice problem={problem} />
      <div class={styles["buttons"]}>
        <span class="muted">
          {number(text.length)} of {number(LONGEST)} characters
        </span>
        <button type="button" onClick={() => onClose(false)}>
          Back
        </button>
        <button type="button" aria-pressed={isPreview} onClick={() => setPreview(!isPreview)}>
          Preview
        </button>
        <button type="submit" class="primary" disabled={isBusy || text === (before.notes ?? "")}>
          Save
        </button>
      </div>
    </form>
  );
}
