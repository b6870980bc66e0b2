// The actions on selected jobs: compare, star and label them; pause, resume and cancel the live ones; archive, move and
// delete those that have ended.

import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { call, post } from "../../api/client.ts";
import { deleteJob, WHAT_GOES } from "../../deleted.ts";
import { countText } from "../../format.ts";
import { Confirm } from "../../parts/dialog.tsx";
import { Notice } from "../../parts/notice.tsx";
import { ProjectDialog } from "../../parts/project_dialog.tsx";
import { isTerminal } from "../../parts/status.tsx";
import { type Act, actedOn, type Changes, takenBack, type Work } from "./acting.ts";
import { LabelDialog } from "./label_dialog.tsx";
import type { Row } from "./row.ts";
import styles from "./selected.module.css";
import { current, NO_SELECTION } from "./selection.ts";
import type { Marks } from "./use_marks.ts";
import type { View } from "./view.ts";

const MOST_COMPARED = 200;
const NAMED = 8;

interface Props {
  /** The jobs that are loaded. */
  rows: readonly Row[];
  view: View;
  marks: Marks;
  /** Gets what is done, with its outcomes so far. */
  onWork: (work: Work) => void;
  /** What stands beside the number of jobs. */
  children?: ComponentChildren;
}

/** What is done, while it is done and after it. */
type Words = readonly [doing: string, done: string];

const patch = (changes: Changes): Act => {
  const send = ({ id }: Row, body: Changes) => call("PATCH", `/v1/jobs/${id}`, { body });
  return Object.assign((row: Row) => send(row, changes), { undo: (row: Row) => send(row, takenBack(changes, row)) });
};
const steer =
  (verb: "cancel" | "pause" | "resume"): Act =>
  ({ id }) =>
    post(`/v1/jobs/${id}/${verb}`);

export function Selected({ rows, view, marks, onWork, children }: Props) {
  const { selection } = marks;
  const jobs = useMemo(() => current(selection, rows), [selection, rows]);
  return (
    <div class={styles["selected"]} role="group" aria-label="Selected jobs">
      <strong>{selection.size} selected</strong>
      {children}
      <Compare ids={[...selection.keys()]} />
      <Actions jobs={jobs} rows={rows} view={view} onGone={marks.deselect} onWork={onWork} />
      <button type="button" class="plain" onClick={() => marks.select(NO_SELECTION)}>
        Clear
      </button>
    </div>
  );
}

interface ActionsProps extends Omit<Props, "marks"> {
  jobs: readonly Row[];
  /** Gets the jobs that an action takes out of the list. */
  onGone: (jobs: readonly Row[]) => void;
}

/** What can be done with these jobs, as buttons. */
export function Actions({ jobs, rows, view, onGone, onWork }: ActionsProps) {
  const [asked, ask] = useState<"cancel" | "delete" | "label" | "move" | null>(null);
  const { isAtWork, work } = useWork(onWork);
  const live = jobs.filter((row) => !isTerminal(row.status) && row.cancel_requested_at === null);
  const [paused, others] = [live.filter((row) => row.paused_at), live.filter((row) => !row.paused_at)];
  const ended = jobs.filter((row) => isTerminal(row.status));
  const archived = ended.filter((row) => row.archived);
  const isAllStarred = jobs.every((row) => row.starred);
  const starring: Words = isAllStarred ? ["Removing stars", "Star removed"] : ["Starring", "Starred"];
  type Action = readonly [name: string, jobs: readonly Row[], words: Words, act: Act];
  const actions: Action[] = [
    [isAllStarred ? "Unstar" : "Star", jobs, starring, patch({ starred: !isAllStarred })],
    ["Pause", others, ["Pausing", "Pause requested"], steer("pause")],
    ["Resume", paused, ["Resuming", "Resumed"], steer("resume")],
  ];
  const putAway: Action[] = [
    ["Archive", ended.filter((row) => !row.archived), ["Archiving", "Archived"], patch({ archived: true })],
    ["Bring back", archived, ["Bringing back", "Brought back"], patch({ archived: false })],
  ];
  /** Takes the jobs out of the list, unless it shows archived jobs and others. */
  const workOnArchive: typeof work = async (...action) => {
    const outcomes = await work(...action);
    const accepted = outcomes.filter(({ refusal }) => refusal === null);
    if (view.archived !== "all") onGone(accepted.map(({ row }) => row));
    return outcomes;
  };
  const button = ([name, some, words, act]: Action, run = work) =>
    some.length > 0 && (
      <button key={name} type="button" disabled={isAtWork} onClick={() => void run(some, words, act)}>
        {name}
      </button>
    );
  return (
    <>
      {actions.map((action) => button(action))}
      <button type="button" disabled={isAtWork} onClick={() => ask("label")}>
        Label…
      </button>
      {putAway.map((action) => button(action, workOnArchive))}
      {ended.length > 0 && (
        <>
          <button type="button" disabled={isAtWork} onClick={() => ask("move")}>
            Move…
          </button>
          <button type="button" class="danger" disabled={isAtWork} onClick={() => ask("delete")}>
            Delete…
          </button>
        </>
      )}
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
          verb="Cancel"
          jobs={live}
          onAnswer={(isYes) => {
            ask(null);
            if (isYes) void work(live, ["Cancelling", "Cancel requested"], steer("cancel"));
          }}
        >
          <p>Queued jobs will not start. Running jobs stop within seconds and keep what they have saved.</p>
          <Others
            count={jobs.length - live.length}
            one="has ended or is already being cancelled, and does not change."
            many="have ended or are already being cancelled, and do not change."
          />
        </Question>
      )}
      {asked === "delete" && (
        <Question
          verb="Delete"
          jobs={ended}
          onAnswer={(isYes) => {
            ask(null);
            if (isYes) void work(ended, ["Deleting", "Deleted"], deleteJob);
          }}
        >
          <p>{WHAT_GOES}</p>
          <Others count={jobs.length - ended.length} one="has not ended, and stays." many="have not ended, and stay." />
        </Question>
      )}
      {asked === "move" && (
        <ProjectDialog
          title={`Move ${countText(ended.length, "job")}`}
          present={ended.map((row) => row.project)}
          onClose={() => ask(null)}
          onMove={(project) => {
            ask(null);
            const moved = ended.filter((row) => row.project !== project);
            void work(moved, ["Moving", `Moved to ${project}`], patch({ project }));
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
  const work = async (jobs: readonly Row[], [doing, done]: Words, act: Act): Promise<Work["outcomes"]> => {
    const tell = (outcomes: Work["outcomes"]): void => onWork({ doing, done, outcomes, isOver: false });
    setAtWork(true);
    tell([]);
    const outcomes = await actedOn(jobs, act, tell);
    const { undo } = act;
    const accepted = outcomes.filter(({ refusal }) => refusal === null).map(({ row }) => row);
    onWork({
      doing,
      done,
      outcomes,
      isOver: true,
      undo: undo && accepted.length > 0 ? () => void work(accepted, ["Undoing", "Undone"], undo) : undefined,
    });
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
  verb: string;
  jobs: readonly Row[];
  onAnswer: (isYes: boolean) => void;
  /** The consequences. */
  children: ComponentChildren;
}

function Question({ verb, jobs, onAnswer, children }: QuestionProps) {
  const isOne = jobs.length === 1;
  return (
    <Confirm
      title={`${verb} ${isOne ? "this job" : `these ${jobs.length} jobs`}?`}
      action={`${verb} ${isOne ? "the job" : jobs.length}`}
      onAnswer={onAnswer}
    >
      <ul class={styles["names"]}>
        {jobs.slice(0, NAMED).map((row) => (
          <li key={row.id}>
            <bdi>{row.name}</bdi> <span class="muted mono">{row.id}</span>
          </li>
        ))}
        {jobs.length > NAMED && <li class="muted">and {jobs.length - NAMED} more</li>}
      </ul>
      {children}
    </Confirm>
  );
}

/** What the question says of selected jobs that it is not about. */
function Others({ count, one, many }: { count: number; one: string; many: string }) {
  if (count === 0) return null;
  return (
    <p class="muted">
      {count} of the selected {count === 1 ? one : many}
    </p>
  );
}

/** The outcomes of an action on several jobs. */
export function Outcomes({ doing, done, outcomes, isOver, undo, onClose }: Work & { onClose: () => void }) {
  const refused = outcomes.filter(({ refusal }) => refusal !== null);
  const acceptedCount = outcomes.length - refused.length;
  const title = isOver
    ? `${done}: ${acceptedCount}${refused.length > 0 ? `, refused: ${refused.length}` : ""}`
    : `${doing}: ${outcomes.length} so far…`;
  return (
    <Notice kind={refused.length > 0 ? "bad" : isOver ? "good" : "plain"}>
      <div class={styles["outcomes"]}>
        <strong>{title}</strong>
        {undo !== undefined && (
          <button type="button" class="plain" onClick={undo}>
            Undo
          </button>
        )}
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
