// The fields of a job that a row shows. A whole job is 4 kB in memory, and there are thousands; its spec is 1 kB.

import type { EndReason, Job, Progress, Status } from "../../api/types.ts";
import { cellText } from "../../cell_text.ts";
import { commandText, number } from "../../format.ts";
import { type Goal, goalMetric, goalMetricOf, goalOf, type Metrics, metricsOf, withNewest } from "../../metrics.ts";

export interface Row {
  readonly id: string;
  readonly name: string;
  readonly owner: string;
  readonly project: string;
  readonly labels: readonly string[];
  readonly starred: boolean;
  readonly archived: boolean;
  readonly has_notes: boolean;
  /** The beginning of its notes, in one line; null if there are none. */
  readonly notes: string | null;
  /** The id of its study; null if it belongs to none. */
  readonly study: string | null;
  /** Its place in the study, in words. */
  readonly cell: string;
  readonly status: Status;
  readonly end_reason: EndReason | null;
  readonly error: string | null;
  readonly paused_at: string | null;
  readonly cancel_requested_at: string | null;
  /** Of a queued job: its position in the queue, and why it waits. */
  readonly waiting: string | null;
  readonly attempt: number;
  readonly epoch: number;
  readonly epochs: number | null;
  readonly step: number;
  readonly steps: number | null;
  /** How much of its work a script has done, in units of its own. */
  readonly done: number | null;
  readonly total: number | null;
  readonly eta_s: number | null;
  /** Of the newest step while it runs, then of the whole training. */
  readonly samples_per_s: number | null;
  /** What a script runs; null for Hora's own loop. */
  readonly command: string | null;
  readonly goal: Goal | null;
  /** The metric that counts; null for a script that has reported none. */
  readonly goal_metric: string | null;
  readonly metrics: Metrics;
  readonly dataset: string;
  readonly model: string;
  readonly gpus: number;
  readonly global_batch: number | null;
  readonly per_gpu_batch: number | null;
  readonly learning_rate: number | null;
  readonly priority: number;
  /** With all defaults, for columns of its fields. */
  readonly spec: Job["spec"];
  /** Its results on the test data: `accuracy`, `loss`. */
  readonly tests: Readonly<Record<string, number>>;
  readonly study_cell: number | null;
  readonly stored_bytes: number | null;
  /** The hosts and the models of the GPUs of its newest attempt. */
  readonly host: string | null;
  readonly devices: string | null;
  /** Of all attempts, when it was read; see `usageAt`. */
  readonly gpu_hours: number;
  readonly cost: number | null;
  readonly read_ms: number;
  readonly restarts: number;
  readonly alerts: number;
  readonly created_at: string;
  readonly started_at: string | null;
  readonly ended_at: string | null;
  readonly revision: number;
  /** The cursor of its page; null for the first page. With it the job can be read again together with others. */
  readonly page: string | null;
}

/** The data of a `state` event of `GET /v1/events`. */
export type StreamedState = Pick<
  Job,
  | "id"
  | "name"
  | "owner"
  | "project"
  | "labels"
  | "status"
  | "end_reason"
  | "attempt"
  | "paused_at"
  | "cancel_requested_at"
  | "created_at"
  | "started_at"
  | "ended_at"
  | "revision"
>;

/** The data of a `progress` event. */
export type StreamedProgress = Pick<Job, "id" | "progress">;

export function rowOf(job: Job, page: string | null = null): Row {
  const metrics = metricsOf(job);
  return {
    id: job.id,
    name: job.name,
    owner: job.owner,
    project: job.project,
    labels: labelsOf(job.labels),
    starred: job.starred,
    archived: job.archived,
    has_notes: job.notes_at !== null,
    notes: job.notes_line ?? null,
    cell: cellText(job),
    status: job.status,
    end_reason: job.end_reason,
    error: job.error,
    paused_at: job.paused_at,
    cancel_requested_at: job.cancel_requested_at,
    waiting: waitingOf(job),
    attempt: job.attempt,
    ...progressOf(job.progress),
    samples_per_s: job.summary?.train_samples_per_s ?? figure(job.progress, "samples_per_s"),
    command: Array.isArray(job.spec["command"]) ? commandText(job.spec["command"] as string[]) : null,
    goal: goalOf(job.spec),
    goal_metric: goalMetricOf(job.spec, Object.keys(metrics)),
    metrics,
    dataset: namedIn(job.spec["dataset"], "source"),
    model: namedIn(job.spec["model"], "name"),
    gpus: job.gpus,
    global_batch: figure(job.plan, "global_batch"),
    per_gpu_batch: figure(job.plan, "per_gpu_batch"),
    learning_rate: figure(job.plan, "learning_rate"),
    priority: job.priority,
    spec: job.spec,
    tests: testsOf(job.summary),
    study: job.study,
    study_cell: job.study_cell,
    stored_bytes: storedBytes(job),
    host: job.usage?.hosts.join(", ") || null,
    devices: job.usage?.devices.join(", ") || null,
    gpu_hours: job.usage?.gpu_hours ?? 0,
    cost: job.usage?.cost ?? null,
    read_ms: Date.now(),
    restarts: job.restarts,
    alerts: job.alerts ?? 0,
    created_at: job.created_at,
    started_at: job.started_at,
    ended_at: job.ended_at,
    revision: job.revision,
    page,
  };
}

/** The row after a state event. The reason to wait, the error and the results have to be read. */
export function withState(row: Row, state: StreamedState): Row {
  return {
    ...row,
    labels: labelsOf(state.labels),
    status: state.status,
    end_reason: state.end_reason,
    waiting: state.status === "queued" ? row.waiting : null,
    attempt: state.attempt,
    paused_at: state.paused_at,
    cancel_requested_at: state.cancel_requested_at,
    started_at: state.started_at,
    ended_at: state.ended_at,
    eta_s: state.ended_at === null ? row.eta_s : null,
    revision: state.revision,
  };
}

export function withProgress(row: Row, progress: Progress): Row {
  const metrics = withNewest(row.metrics, progress, row.goal);
  return {
    ...row,
    ...progressOf(progress),
    metrics,
    goal_metric: goalMetric(row.goal, Object.keys(metrics)) ?? row.goal_metric,
    samples_per_s: figure(progress, "samples_per_s") ?? row.samples_per_s,
  };
}

/** The GPU-hours and the cost of a row at a time: those of a live job grow after it was read. */
export function usageAt(row: Row, time_ms: number): Pick<Row, "gpu_hours" | "cost"> {
  const { gpu_hours: before, cost, status, gpus, read_ms } = row;
  if (status !== "running" && status !== "launching") return row;
  const gpu_hours = before + (gpus * Math.max(0, time_ms - read_ms)) / 3_600_000;
  return { gpu_hours, cost: cost === null || before === 0 ? cost : (cost * gpu_hours) / before };
}

/** The progress of a job, 0..1; null while it is unknown. */
export function shareOf({ done, total, step, steps, epoch, epochs }: Row): number | null {
  if (done !== null) return total ? done / total : null;
  if (steps) return step / steps;
  return epochs ? epoch / epochs : null;
}

/** How far a job is, and the unit: its own, epochs, or steps. Where the end is unknown, only how far it is. */
export function stageOf({ done, total, step, steps, epoch, epochs }: Row): readonly [text: string, unit: string] {
  const of = (amount: number, all: number | null): string =>
    all === null ? number(amount) : `${number(amount)}/${number(all)}`;
  if (done !== null) return [of(done, total), ""];
  // A batch probe has steps but no epochs.
  return epochs !== null || (steps === null && epoch > 0) ? [of(epoch, epochs), "epochs"] : [of(step, steps), "steps"];
}

function progressOf(progress: Progress): Pick<Row, "epoch" | "epochs" | "step" | "steps" | "done" | "total" | "eta_s"> {
  const { epoch, epochs = null, step, steps = null, done = null, total = null, eta_s = null } = progress;
  return { epoch, epochs, step, steps, done, total, eta_s };
}

function labelsOf(labels: Job["labels"]): string[] {
  return Object.entries(labels).map(([key, value]) => `${key}:${value}`);
}

function testsOf(summary: Job["summary"]): Record<string, number> {
  const results = Object.entries(summary ?? {}).filter(
    ([name, value]) => /^test_./.test(name) && typeof value === "number",
  );
  return Object.fromEntries(results.map(([name, value]) => [name.slice("test_".length), value as number]));
}

/** What its checkpoints and artifacts take; null if nothing was measured. */
function storedBytes({ checkpoint_bytes = null, artifact_bytes = null }: Job): number | null {
  return checkpoint_bytes === null && artifact_bytes === null ? null : (checkpoint_bytes ?? 0) + (artifact_bytes ?? 0);
}

function waitingOf({ waiting }: Job): string | null {
  if (waiting === null) return null;
  return waiting.position === null ? waiting.reason : `#${waiting.position} · ${waiting.reason}`;
}

function figure(of: Readonly<Record<string, unknown>>, name: string): number | null {
  const value = of[name];
  return typeof value === "number" ? value : null;
}

/** The name of a dataset or a model, which a spec writes as a string or as an object. */
function namedIn(value: unknown, field: string): string {
  if (typeof value !== "object" || value === null) return typeof value === "string" ? value : "";
  return String((value as Record<string, unknown>)[field] ?? "");
}
