// The notes on a study, and a form to add one.

import { useState } from "preact/hooks";
import { Problem, post } from "../../api/client.ts";
import type { Note, Study } from "../../api/types.ts";
import { ago, moment } from "../../format.ts";
import { ProblemNotice } from "../../parts/notice.tsx";
import { Panel } from "../../parts/panel.tsx";
import styles from "./notes.module.css";

const LONGEST = 10_000;

export function Notes({ study, onChange }: { study: Study; onChange: () => void }) {
  return (
    <Panel title="Notes">
      <ol class={styles["notes"]} aria-live="polite">
        {study.notes.map((note) => (
          <li key={note.id}>
            <header>
              <strong>{note.author}</strong>{" "}
              <time dateTime={note.at} title={moment(note.at)}>
                {ago(note.at)}
              </time>
            </header>
            <p>{note.text}</p>
          </li>
        ))}
      </ol>
      <Add id={study.id} onAdded={onChange} />
    </Panel>
  );
}

function Add({ id, onAdded }: { id: string; onAdded: () => void }) {
  const [text, setText] = useState("");
  const [problem, setProblem] = useState<Problem>();
  const [isBusy, setBusy] = useState(false);

  async function add(event: Event): Promise<void> {
    event.preventDefault();
    setBusy(true);
    setProblem(undefined);
    try {
      await post<Note>(`/v1/studies/${id}/notes`, { text });
      setText("");
      onAdded();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
    }
    setBusy(false);
  }

  return (
    <form class={styles["form"]} onSubmit={add}>
      <label>
        Add a note
        <textarea
          rows={2}
          maxLength={LONGEST}
          value={text}
          placeholder="What you saw, what to try next"
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </label>
      {problem?.isAway && <p role="alert">The api does not answer. The note was not added; its text stays here.</p>}
      <ProblemNotice problem={problem} />
      <button type="submit" disabled={isBusy || text.trim() === ""}>
        Add note
      </button>
    </form>
  );
}
