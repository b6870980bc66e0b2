// The jobs in the sequence of the queue. Who may change a job can drag it to another place, or move it with the keyboard.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { usePolled } from "../../api/polled.ts";
import type { Listed, Me, Project, QueuedJob } from "../../api/types.ts";
import { duration, moment, number, secondsBetween, UNKNOWN } from "../../format.ts";
import { mayChange } from "../../rights.ts";
import { now } from "../jobs/clock.ts";
import { MoveDialog } from "./move.tsx";
import { ceilingOf } from "./moves.ts";
import styles from "./rows.module.css";

const ONCE = { every_s: Number.POSITIVE_INFINITY };

interface Props {
  jobs: readonly QueuedJob[];
  /** Whether the jobs follow each other in the queue. A filter leaves some out, and then none is moved. */
  isWhole: boolean;
  onMoved: () => void;
}

/** A job that a person wants to move, and the index of the row that it should have. */
interface Wish {
  readonly id: string;
  readonly index: number;
}

export function QueuedJobs({ jobs, isWhole, onMoved }: Props) {
  const me = usePolled<Me>("/v1/me", ONCE).data;
  const projects = usePolled<Listed<Project>>(me?.scope === "submit" ? "/v1/projects?limit=500" : null, ONCE).data;
  const [wish, setWish] = useState<Wish>();
  const [dragged, setDragged] = useState<string>();
  const [line, setLine] = useState<number>(); // the job would be dropped above the row of this index
  const [said, setSaid] = useState("");
  const table = useRef<HTMLTableElement>(null);
  const moved = useRef<string>(undefined);
  const sequence = jobs.map(({ id }) => id).join(" ");
  // The focus goes back to the job after the dialog, and stays on it when its row moves.
  useLayoutEffect(() => {
    if (wish === undefined && moved.current !== undefined && document.activeElement === document.body)
      table.current?.querySelector<HTMLElement>(`[data-move="${moved.current}"]`)?.focus();
  }, [wish, sequence]);
  const job = wish && jobs.find(({ id }) => id === wish.id);

  function drop(): void {
    const from = jobs.findIndex(({ id }) => id === dragged);
    if (from >= 0 && line !== undefined) setWish({ id: dragged ?? "", index: line > from ? line - 1 : line });
    setDragged(undefined);
    setLine(undefined);
  }

  function close(id: string, result: string | null): void {
    setWish(undefined);
    if (result !== null) {
      setSaid(result);
      onMoved();
    }
    moved.current = id;
  }

  return (
    <>
      <p class="spoken" role="status">
        {said}
      </p>
      <div class={styles["scroller"]} tabIndex={0} role="region" aria-label="Jobs that wait">
        <table ref={table} class={styles["table"]}>
          <thead>
            <tr>
              <th scope="col" class="figure">
                Place
              </th>
              <th scope="col">Job, and why it waits</th>
              <th scope="col">Expected start</th>
              <th scope="col" class={`figure ${styles["wide"]}`}>
                Waited
              </th>
              <th scope="col" class="figure">
                GPUs
              </th>
              <th scope="col" class="figure">
                Priority
              </th>
              <th scope="col" class={styles["wide"]}>
                Owner
              </th>
              <th scope="col" class={styles["wide"]}>
                Project
              </th>
            </tr>
          </thead>
          <tbody
            onDragOver={(event) => {
              if (dragged === undefined) return;
              event.preventDefault();
              setLine(lineAt(event, jobs.length));
            }}
            onDrop={(event) => {
              event.preventDefault();
              drop();
            }}
          >
            {jobs.map((one, index) => {
              const isMovable = isWhole && mayChange(me, one);
              return (
                <tr
                  key={one.id}
                  data-job={one.id}
                  data-index={index}
                  draggable={isMovable}
                  class={`${dragged === one.id ? styles["dragged"] : ""} ${lineClass(line, index, jobs.length)}`}
                  onDragStart={(event) => {
                    event.dataTransfer?.setData("text/plain", one.id);
                    setDragged(one.id);
                  }}
                  onDragEnd={() => {
                    setDragged(undefined);
                    setLine(undefined);
                  }}
                >
                  <td class={styles["place"]}>
                    {isMovable && (
                      <button
                        type="button"
                        class={`plain ${styles["handle"]}`}
                        data-move={one.id}
                        aria-label={`Move ${one.name}`}
                        aria-keyshortcuts="Alt+ArrowUp Alt+ArrowDown"
                        title="Drag the row, or press Alt and an arrow. A click asks for the place."
                        onClick={() => setWish({ id: one.id, index })}
                        onKeyDown={(event) => {
                          const step = event.altKey ? STEPS[event.key] : undefined;
                          if (step === undefined) return;
                          event.preventDefault();
                          setWish({ id: one.id, index: Math.min(Math.max(index + step, 0), jobs.length - 1) });
                        }}
                      >
                        <span aria-hidden="true">⠿</span>
                      </button>
                    )}
                    {number(one.position)}
                  </td>
                  <Cells job={one} />
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {wish !== undefined && job !== undefined && (
        <MoveDialog
          jobs={jobs}
          job={job}
          index={wish.index}
          ceiling={ceilingOf(
            me,
            projects?.items.find(({ name }) => name === job.project),
          )}
          onClose={(result) => close(job.id, result)}
        />
      )}
    </>
  );
}

const STEPS: Readonly<Record<string, number>> = { ArrowUp: -1, ArrowDown: 1 };

/** The row above which a job would be dropped: the next one, in the lower half of a row. */
function lineAt(event: DragEvent, count: number): number {
  const row = (event.target as Element).closest<HTMLElement>("tr[data-index]");
  if (row === null) return count;
  const { top, height } = row.getBoundingClientRect();
  return Number(row.dataset["index"]) + (event.clientY > top + height / 2 ? 1 : 0);
}

function lineClass(line: number | undefined, index: number, count: number): string {
  if (line === index) return styles["above"] ?? "";
  return line === count && index === count - 1 ? (styles["below"] ?? "") : "";
}

function Cells({ job }: { job: QueuedJob }) {
  return (
    <>
      <td class={styles["job"]}>
        <a href={`/jobs/${job.id}`} draggable={false}>
          <bdi>{job.name}</bdi>
        </a>
        <small>
          <span class="mono">{job.id}</span> {job.reason}
        </small>
      </td>
      <td class={styles["start"]}>{startText(job.starts_in_s)}</td>
      <td class={`figure ${styles["wide"]}`} title={moment(job.queued_at)}>
        <Waited since={job.queued_at} />
      </td>
      <td class="figure">{number(job.gpus)}</td>
      <td class="figure">{number(job.priority)}</td>
      <td class={styles["wide"]}>
        <bdi>{job.owner}</bdi>
      </td>
      <td class={styles["wide"]}>{job.project}</td>
    </>
  );
}

/** Alone in reading the clock, so that only these cells are drawn each second. */
function Waited({ since }: { since: string }) {
  return <>{duration(Math.max(0, Math.floor(secondsBetween(since, null, now.value) ?? 0)))}</>;
}

function startText(in_s: number | null): string {
  if (in_s === null) return UNKNOWN;
  return in_s < 1 ? "soon" : `in about ${about(in_s)}`;
}

/** In the greatest unit, as a forecast is no better: 40 s, 12 min, 3 h, 2 d. */
function about(seconds: number): string {
  const [size, unit] = ABOUT.find(([, , least]) => seconds >= least) ?? [1, "s"];
  return `${Math.round(seconds / size)} ${unit}`;
}

const ABOUT: readonly [size_s: number, unit: string, least_s: number][] = [
  [86_400, "d", 129_600],
  [3600, "h", 5400],
  [60, "min", 90],
];
