// The times of a job as one bar over all its attempts: how long it waited, launched, set up and trained.

import { useRef, useState } from "preact/hooks";
import type { Attempt, Job, JobEvent } from "../../../api/types.ts";
import { duration, gpuTime, moment, number, words } from "../../../format.ts";
import { endOf } from "../reasons.ts";
import { useNow } from "../use_job.ts";
import { AttemptsTable } from "./attempts_table.tsx";
import { usageOf } from "./costs.ts";
import { type Phase, type Segment, segmentsOf, setUpParts, totalsOf } from "./segments.ts";
import styles from "./timeline.module.css";

const PHASE_NAMES: Record<Phase, string> = {
  queued: "queued",
  in_slurm: "queued in Slurm",
  paused: "paused",
  launch: "launch",
  set_up: "set-up",
  training: "training",
  finishing: "test and saving",
};

const LABELLED_SHARE = 0.09; // a narrower segment has no room for its name

interface Props {
  job: Job;
  /** Undefined until they have come. The room for them is there from the beginning. */
  attempts: readonly Attempt[] | undefined;
  events: readonly JobEvent[];
}

export function Timeline({ job, attempts: known, events }: Props) {
  const attempts = known ?? NO_ATTEMPTS;
  const hasAttempts = job.attempt > 0;
  const nowMs = useNow(job.ended_at === null);
  const segments = segmentsOf(job, attempts, events, nowMs);
  const [shownIndex, setShownIndex] = useState<number | null>(null);
  const totalMs = Math.max(
    1,
    segments.reduce((sum, { fromMs, toMs }) => sum + toMs - fromMs, 0),
  );
  const { gpuHours, cost } = usageOf(attempts, nowMs);
  const selected = shownIndex === null ? undefined : segments[shownIndex];
  return (
    <section class={styles["timeline"]} aria-label="Timeline">
      {known === undefined ? (
        <div class={styles["group"]}>
          <div class={styles["parts"]} />
          {job.attempt > 1 && <span class={styles["caption"]}>&nbsp;</span>}
        </div>
      ) : (
        <Bar segments={segments} attempts={attempts} totalMs={totalMs} shownIndex={shownIndex} onShow={setShownIndex} />
      )}
      <div class={styles["below"]}>
        <ul class={styles["legend"]} aria-label="Time in each phase">
          {totalsOf(segments).map(([phase, seconds]) => (
            <li key={phase}>
              <span class={`${styles["swatch"]} ${styles[phase]}`} aria-hidden="true" /> {PHASE_NAMES[phase]}{" "}
              <strong>{duration(seconds)}</strong>
            </li>
          ))}
          {hasAttempts && (
            <li>
              GPU time <strong>{gpuTime(gpuHours)}</strong>
            </li>
          )}
          {attempts.length > 0 && cost !== null && (
            <li>
              cost <strong>{number(cost, 3)}</strong>
            </li>
          )}
        </ul>
        <p class={styles["detail"]}>
          {selected === undefined
            ? `${moment(job.created_at)} to ${job.ended_at === null ? "now" : moment(job.ended_at)}, ${duration(totalMs / 1000)} in all`
            : segmentText(selected, attempts)}
        </p>
      </div>
      {hasAttempts && (
        <details class={styles["table"]}>
          <summary>Attempts as a table</summary>
          <AttemptsTable attempts={attempts} segments={segments} />
        </details>
      )}
    </section>
  );
}

const NO_ATTEMPTS: readonly Attempt[] = [];

interface BarProps {
  segments: readonly Segment[];
  attempts: readonly Attempt[];
  totalMs: number;
  shownIndex: number | null;
  onShow: (index: number | null) => void;
}

/** The segments as buttons with one tab stop. The arrow keys move between them. */
function Bar({ segments, attempts, totalMs, shownIndex, onShow }: BarProps) {
  const bar = useRef<HTMLDivElement>(null);
  function move(event: KeyboardEvent): void {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const next = Math.min(segments.length - 1, Math.max(0, (shownIndex ?? 0) + step));
    bar.current?.querySelectorAll<HTMLElement>("button")[next]?.focus();
  }
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the keys of the buttons inside come up to here
    <div class={styles["bar"]} ref={bar} onKeyDown={move} onMouseLeave={() => onShow(null)}>
      {groupsOf(segments).map(({ attempt, parts }) => (
        <div
          key={attempt ?? "end"}
          class={styles["group"]}
          style={{ flexGrow: parts.reduce((sum, { segment }) => sum + lengthMs(segment), 0) }}
        >
          <div class={styles["parts"]}>
            {parts.map(({ segment, index }) => (
              <button
                key={index}
                type="button"
                class={`${styles["part"]} ${styles[segment.phase]}`}
                style={{ flexGrow: lengthMs(segment) }}
                tabIndex={index === (shownIndex ?? 0) ? 0 : -1}
                aria-label={segmentText(segment, attempts)}
                onFocus={() => onShow(index)}
                onBlur={() => onShow(null)}
                onMouseEnter={() => onShow(index)}
              >
                {lengthMs(segment) / totalMs > LABELLED_SHARE && (
                  <span aria-hidden="true">
                    {PHASE_NAMES[segment.phase]} {duration(lengthMs(segment) / 1000)}
                  </span>
                )}
              </button>
            ))}
          </div>
          {attempts.length > 1 && <Caption attempt={attempts.find(({ number }) => number === attempt)} />}
        </div>
      ))}
    </div>
  );
}

function Caption({ attempt }: { attempt: Attempt | undefined }) {
  const text = attempt === undefined ? "waiting" : `${attempt.number} · ${endOf(attempt)}`;
  return (
    <span class={styles["caption"]} title={attempt?.error ?? undefined} aria-hidden="true">
      {text}
    </span>
  );
}

/** The segments of each attempt, with the wait before it. */
function groupsOf(segments: readonly Segment[]) {
  const groups: { attempt: number | null; parts: { segment: Segment; index: number }[] }[] = [];
  segments.forEach((segment, index) => {
    const last = groups.at(-1);
    if (last !== undefined && last.attempt === segment.attempt) last.parts.push({ segment, index });
    else groups.push({ attempt: segment.attempt, parts: [{ segment, index }] });
  });
  return groups;
}

/** A segment in words: attempt 2: set-up, 4.9 s, 12:48:27 to 12:48:32; import 3.3 s, connect 0.5 s. */
function segmentText(segment: Segment, attempts: readonly Attempt[]): string {
  const attempt = attempts.find(({ number }) => number === segment.attempt);
  const attemptText = attempt === undefined ? "" : `attempt ${attempt.number}: `;
  const times = `${clock(segment.fromMs)} to ${clock(segment.toMs)}`;
  const parts =
    segment.phase === "set_up" && attempt !== undefined
      ? setUpParts(attempt.setup).map(([name, seconds]) => `${words(name)} ${duration(seconds)}`)
      : [];
  const head = `${attemptText}${PHASE_NAMES[segment.phase]} ${duration(lengthMs(segment) / 1000)}, ${times}`;
  return parts.length === 0 ? head : `${head}; ${parts.join(", ")}`;
}

function lengthMs({ fromMs, toMs }: Segment): number {
  return toMs - fromMs;
}

function clock(atMs: number): string {
  return moment(new Date(atMs).toISOString());
}
