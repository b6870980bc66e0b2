// The actions on selected jobs: compare them, star and label them, pause, resume and cancel the live ones.

import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { call, post } from "../../api/client.ts";
import { Confirm } from "../../parts/dialog.tsx";
import { Notice } from "../../parts/notice.tsx";
import { isTerminal } from "../../parts/status.tsx";
import { type Act, actedOn, type Work } from "./acting.ts";
import { LabelDialog } from "./label_dialog.tsx";
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
  /** Gets what is done, with its outcomes so far. */
  onWork: (work: Work) => void;
  /** What stands beside the number of jobs. */
  children?: ComponentChildren;
}

/** What is done, while it is done and after it. */
type Words = readonly [doing: string, done: string];

const patch =
  (body: object): Act =>
  ({ id }) =>
    call("PATCH", `/v1/jobs/${id}`, { body });
const steer =
  (verb: "cancel" | "pause" | "resume"): Act =>
  ({ id }) =>
    post(`/v1/jobs/${id}/${verb}`);

export function Selected({ selection, rows, onSelect, onWork, children }: Props) {
  const jobs = useMemo(() => current(selection, rows), [selection, rows]);
  return (
    <div class={styles["selected"]} role="group" aria-label="Selected jobs">
      <strong>{selection.size} selected</strong>
      {children}
      <Compare ids={[...selection.keys()]} />
      <Actions jobs={jobs} rows={rows} onSelect={onSelect} onWork={onWork} />
      <button type="button" class="plain" onClick={() => onSelect(NO_SELECTION)}>
        Clear
      </button>
    </div>
  );
}

interface ActionsProps extends Omit<Props, "selection"> {
  jobs: readonly Row[];
}

/** What can be done with these jobs, as buttons. */
export function Actions({ jobs, rows, onSelect, onWork }: ActionsProps) {
  const [asked, ask] = useState<"cancel" | "label" | null>(null);
  const { isAtWork, work } = useWork(onWork);
  const live = jobs.filter((row) => !isTerminal(row.status) && row.cancel_requested_at === null);
  const [paused, others] = [live.filter((row) => row.paused_at), live.filter((row) => !row.paused_at)];
  const isAllStarred = jobs.every((row) => row.starred);
  const starring: Words = isAllStarred ? ["Removing stars", "Star removed"] : ["Starring", "Starred"];
  const actions: [name: string, jobs: readonly Row[], words: Words, act: Act][] = [
    [isAllStarred ? "Unstar" : "Star", jobs, starring, patch({ starred: !isAllStarred })],
    ["Pause", others, ["Pausing", "Pause requested"], steer("pause")],
    ["Resume", paused, ["Resuming", "Resumed"], steer("resume")],
  ];
  const cancel = async (): Promise<void> => {
    const outcomes = await work(live, ["Cancelling", "Cancel requested"], steer("cancel"));
    onSelect(new Map(outcomes.filter(({ refusal }) => refusal !== null).map(({ row }) => [row.id, row])));
  };
  return (
    <>
      {actions.map(
        ([name, some, words, act]) =>
          some.length > 0 && (
            <button key={name} type="button" disabled={isAtWork} onClick={() => void work(some, words, act)}>
              {name}
            </button>
          ),
      )}
      <button type="button" disabled={isAtWork} onClick={() => ask("label")}>
        Label…
      </button>
      <button
        type="button"
        class="danger"
        disabled={live.length === 0 || isAtWork}
        title={live.length === 0 ? "None of the selected jobs is live" : undefined}
        onClick={() => ask("cancel")}
      >
        Cancel…
      </button>
      {asked === "cancel" && (
        <Question
          live={live}
          ended={jobs.length - live.length}
          onAnswer={(isYes) => {
            ask(null);
            if (isYes) void cancel();
          }}
        />
      )}
      {asked === "label" && (
        <LabelDialog
          jobs={jobs}
          rows={rows}
          onClose={() => ask(null)}
          onChange={(some, labels, words) => {
            ask(null);
            void work(some, words, patch({ labels }));
          }}
        />
      )}
    </>
  );
}

function useWork(onWork: (work: Work) => void) {
  const [isAtWork, setAtWork] = useState(false);
  const work = async (jobs: readonly Row[], [doing, done]: Words, act: Act) => {
    const tell = (outcomes: Work["outcomes"], isOver: boolean): void => onWork({ doing, done, outcomes, isOver });
    setAtWork(true);
    tell([], false);
    const outcomes = await actedOn(jobs, act, (soFar) => tell(soFar, false));
    tell(outcomes, true);
    setAtWork(false);
    return outcomes;
  };
  return { isAtWork, work };
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

/** The outcomes of an action on several jobs. */
export function Outcomes({ doing, done, outcomes, isOver, onClose }: Work & { onClose: () => void }) {
  const refused = outcomes.filter(({ refusal }) => refusal !== null);
  const acceptedCount = outcomes.length - refused.length;
  const title = isOver
    ? `${done}: ${acceptedCount}${refused.length > 0 ? `, refused: ${refused.length}` : ""}`
    : `${doing}: ${outcomes.length} so far…`;
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
