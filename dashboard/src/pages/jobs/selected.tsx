// The actions on selected jobs: compare them, and cancel the live ones.

import { useMemo, useState } from "preact/hooks";
import { post } from "../../api/client.ts";
import { Confirm } from "../../parts/dialog.tsx";
import { Notice } from "../../parts/notice.tsx";
import { isTerminal } from "../../parts/status.tsx";
import { cancelled, type Outcome } from "./cancelling.ts";
import type { Row } from "./row.ts";
import styles from "./selected.module.css";
import { current, NO_SELECTION, type Selection } from "./selection.ts";

const MOST_COMPARED = 200;
const NAMED = 8;

interface Props {
  selection: Selection;
  /** The jobs that are loaded. */
  rows: readonly Row[];
  onSelect: (selection: Selection) => void;
  /** Gets the outcomes of the cancel requests so far. */
  onOutcomes: (outcomes: readonly Outcome[], isOver: boolean) => void;
}

export function Selected({ selection, rows, onSelect, onOutcomes }: Props) {
  const [isAsking, setAsking] = useState(false);
  const [isAtWork, setAtWork] = useState(false);
  const jobs = useMemo(() => current(selection, rows), [selection, rows]);
  const live = jobs.filter((row) => !isTerminal(row.status) && row.cancel_requested_at === null);
  const answer = async (isYes: boolean): Promise<void> => {
    setAsking(false);
    if (!isYes) return;
    setAtWork(true);
    onOutcomes([], false);
    const outcomes = await cancelled(
      live,
      (id) => post(`/v1/jobs/${id}/cancel`),
      (some) => onOutcomes(some, false),
    );
    onOutcomes(outcomes, true);
    setAtWork(false);
    onSelect(new Map(outcomes.filter(({ refusal }) => refusal !== null).map(({ row }) => [row.id, row])));
  };
  return (
    <div class={styles["selected"]} role="group" aria-label="Selected jobs">
      <strong>{selection.size} selected</strong>
      <Compare ids={[...selection.keys()]} />
      <button
        type="button"
        class="danger"
        disabled={live.length === 0 || isAtWork}
        title={live.length === 0 ? "None of the selected jobs is live" : undefined}
        onClick={() => setAsking(true)}
      >
        Cancel…
      </button>
      <button type="button" class="plain" onClick={() => onSelect(NO_SELECTION)}>
        Clear
      </button>
      {isAsking && (
        <Question live={live} ended={selection.size - live.length} onAnswer={(isYes) => void answer(isYes)} />
      )}
    </div>
  );
}

function Compare({ ids }: { ids: readonly string[] }) {
  const problem =
    ids.length < 2 ? "Select two or more" : ids.length > MOST_COMPARED ? `At most ${MOST_COMPARED} at once` : undefined;
  if (problem !== undefined)
    return (
      <button type="button" disabled title={problem}>
        Compare
      </button>
    );
  return (
    <a class={styles["compare"]} href={`/compare?jobs=${ids.join(",")}`}>
      Compare
    </a>
  );
}

interface QuestionProps {
  live: readonly Row[];
  ended: number;
  onAnswer: (isYes: boolean) => void;
}

function Question({ live, ended, onAnswer }: QuestionProps) {
  const jobs = live.length === 1 ? "this job" : `these ${live.length} jobs`;
  return (
    <Confirm
      title={`Cancel ${jobs}?`}
      action={live.length === 1 ? "Cancel the job" : `Cancel ${live.length}`}
      onAnswer={onAnswer}
    >
      <ul class={styles["names"]}>
        {live.slice(0, NAMED).map((row) => (
          <li key={row.id}>
            <bdi>{row.name}</bdi> <span class="muted mono">{row.id}</span>
          </li>
        ))}
        {live.length > NAMED && <li class="muted">and {live.length - NAMED} more</li>}
      </ul>
      <p>Queued jobs will not start. Running jobs stop within seconds and keep what they have saved.</p>
      {ended > 0 && (
        <p class="muted">
          {ended} of the selected{" "}
          {ended === 1
            ? "has ended or is already being cancelled, and does not change."
            : "have ended or are already being cancelled, and do not change."}
        </p>
      )}
    </Confirm>
  );
}

/** The outcomes of cancelling jobs. */
export function Outcomes({
  outcomes,
  isOver,
  onClose,
}: {
  outcomes: readonly Outcome[];
  isOver: boolean;
  onClose: () => void;
}) {
  const refused = outcomes.filter(({ refusal }) => refusal !== null);
  const acceptedCount = outcomes.length - refused.length;
  const title = isOver
    ? `Cancel requested: ${acceptedCount}${refused.length > 0 ? `, refused: ${refused.length}` : ""}`
    : `Cancelling: ${outcomes.length} so far…`;
  return (
    <Notice kind={refused.length > 0 ? "bad" : isOver ? "good" : "plain"}>
      <div class={styles["outcomes"]}>
        <strong>{title}</strong>
        {isOver && (
          <button type="button" class="plain" onClick={onClose}>
            Close
          </button>
        )}
      </div>
      <ul class={styles["names"]}>
        {refused.map(({ row, refusal }) => (
          <li key={row.id}>
            <a href={`/jobs/${row.id}`}>
              <bdi>{row.name}</bdi>
            </a>{" "}
            <span class="mono">{row.id}</span>: {refusal}
          </li>
        ))}
      </ul>
    </Notice>
  );
}
