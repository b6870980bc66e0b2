// The time of a job as segments without gaps. Used by `timeline.tsx`.

import type { Attempt, Job, JobEvent } from "../../../api/types.ts";

export type Phase = "queued" | "in_slurm" | "paused" | "launch" | "set_up" | "training" | "finishing";

export interface Segment {
  readonly phase: Phase;
  /** The attempt that it is part of, or that it waited for; null if none followed. */
  readonly attempt: number | null;
  readonly fromMs: number;
  readonly toMs: number;
}

type Times = Pick<Job, "created_at" | "ended_at" | "paused_at">;

/** All segments of a job's time, oldest first. Empty segments are left out. */
export function segmentsOf(
  job: Times,
  attempts: readonly Attempt[],
  events: readonly JobEvent[],
  nowMs: number,
): Segment[] {
  const pauses = pausesOf(events, job.paused_at, nowMs);
  const endMs = ms(job.ended_at) ?? nowMs;
  const parts: Segment[] = [];
  let atMs = ms(job.created_at) as number;
  const add = (phase: Phase, attempt: number | null, untilMs: number): void => {
    // The clocks of hosts may differ a little: a segment that would end before it began is empty.
    if (untilMs <= atMs) return;
    parts.push({ phase, attempt, fromMs: atMs, toMs: untilMs });
    atMs = untilMs;
  };
  const wait = (attempt: number | null, untilMs: number): void => {
    for (const pause of pauses) {
      if (pause.toMs <= atMs || pause.fromMs >= untilMs) continue;
      add("queued", attempt, pause.fromMs);
      add("paused", attempt, Math.min(pause.toMs, untilMs));
    }
    add("queued", attempt, untilMs);
  };
  for (const attempt of attempts) {
    const createdMs = ms(attempt.created_at) as number;
    const handedMs = ms(attempt.handed_at);
    wait(attempt.number, Math.min(handedMs ?? createdMs, createdMs));
    if (handedMs !== null) add("in_slurm", attempt.number, createdMs);
    for (const [phase, untilMs] of phasesOf(attempt, events, nowMs)) add(phase, attempt.number, untilMs);
  }
  if (attempts.at(-1)?.ended_at !== null) wait(null, endMs);
  return parts;
}

/** When each phase of an attempt ended. */
function phasesOf(attempt: Attempt, events: readonly JobEvent[], nowMs: number): [Phase, number][] {
  const endMs = ms(attempt.ended_at) ?? nowMs;
  const startedMs = ms(attempt.started_at);
  if (startedMs === null) return [["launch", endMs]];
  const attemptEvents = events.filter((event) => event.attempt === attempt.number);
  const firstStepMs =
    timeOf(attemptEvents.find((event) => event.kind === "first_step")) ?? setUpEndMs(attempt, startedMs);
  if (firstStepMs === null) {
    return [
      ["launch", startedMs],
      ["set_up", endMs],
    ];
  }
  const isFinished = ["completed", "early_stopped", "pruned"].includes(attempt.end_reason ?? "");
  const lastEpochMs = timeOf(attemptEvents.findLast((event) => event.kind === "epoch_ended"));
  return [
    ["launch", startedMs],
    ["set_up", Math.min(firstStepMs, endMs)],
    ["training", Math.min(isFinished && lastEpochMs !== null ? lastEpochMs : endMs, endMs)],
    ["finishing", endMs],
  ];
}

/** When the set-up ended, from the lengths of its parts: for histories without a first_step event. */
function setUpEndMs(attempt: Attempt, startedMs: number): number | null {
  if (!("first_step" in attempt.setup)) return null;
  return startedMs + 1000 * Object.values(attempt.setup).reduce((sum, seconds) => sum + seconds, 0);
}

interface Stretch {
  fromMs: number;
  toMs: number;
}

/** The times in which the job was paused. */
function pausesOf(events: readonly JobEvent[], pausedAt: string | null, nowMs: number): Stretch[] {
  const pauses: Stretch[] = [];
  let fromMs: number | null = null;
  for (const event of events) {
    if (event.kind === "pause_requested") fromMs ??= timeOf(event);
    if (event.kind === "resumed" && fromMs !== null) {
      pauses.push({ fromMs, toMs: timeOf(event) as number });
      fromMs = null;
    }
  }
  const openMs = fromMs ?? ms(pausedAt);
  if (pausedAt !== null && openMs !== null) pauses.push({ fromMs: openMs, toMs: nowMs });
  return pauses;
}

/** The total seconds of each phase, in the order of their first segments. */
export function totalsOf(segments: readonly Segment[]): [Phase, number][] {
  const totals = new Map<Phase, number>();
  for (const { phase, fromMs, toMs } of segments) {
    totals.set(phase, (totals.get(phase) ?? 0) + (toMs - fromMs) / 1000);
  }
  return [...totals];
}

/** Seconds of a phase in one attempt. */
export function lengthOf(segments: readonly Segment[], attempt: number, phase: Phase): number | null {
  const own = segments.filter((one) => one.attempt === attempt && one.phase === phase);
  return own.length === 0 ? null : own.reduce((sum, { fromMs, toMs }) => sum + (toMs - fromMs) / 1000, 0);
}

const SETUP_PARTS = ["import", "connect", "data", "build", "restore", "first_step"];

/** The parts of a set-up in their order. */
export function setUpParts(setup: Readonly<Record<string, number>>): [string, number][] {
  const place = (name: string): number => {
    const index = SETUP_PARTS.indexOf(name);
    return index < 0 ? SETUP_PARTS.length : index;
  };
  return Object.entries(setup).sort(([a], [b]) => place(a) - place(b));
}

function ms(at: string | null | undefined): number | null {
  return at ? Date.parse(at) : null;
}

function timeOf(event: JobEvent | undefined): number | null {
  return event === undefined ? null : Date.parse(event.at);
}
