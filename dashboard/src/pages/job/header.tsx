// The header of a job's page: its facts, its progress and its actions.

import type { ComponentChildren } from "preact";
import type { Alert, Job, Progress } from "../../api/types.ts";
import { cellText } from "../../cell_text.ts";
import { ago, countText, duration, moment, number, short } from "../../format.ts";
import { isScript } from "../../metrics.ts";
import { Meter } from "../../parts/meter.tsx";
import { Star } from "../../parts/star.tsx";
import { isTerminal, StatusBadge } from "../../parts/status.tsx";
import { Actions } from "./actions.tsx";
import { jobsBefore } from "./after.ts";
import { behindText } from "./copies.ts";
import { CopyButton } from "./copy_button.tsx";
import styles from "./header.module.css";
import { idleText } from "./idle.ts";
import { JobName } from "./job_name.tsx";
import { Neighbours } from "./neighbours.tsx";
import { Notify } from "./notify.tsx";
import { ordinal, sentence } from "./reasons.ts";
import { isProbe } from "./results/probe.tsx";
import { bestPoint } from "./results/probed.ts";

export function Header({ job, onChange, children }: { job: Job; onChange: () => void; children: ComponentChildren }) {
  return (
    <header class={styles["header"]}>
      <div class={styles["title"]}>
        <Neighbours id={job.id} />
        <h1>{job.name}</h1>
        <Star job={job} />
        <StatusBadge
          status={job.status}
          reason={job.end_reason}
          cancelRequestedAt={job.cancel_requested_at}
          pausedAt={job.paused_at}
        />
        <Actions job={job} onChange={onChange} />
        <Notify job={job} />
      </div>
      <Facts job={job} />
      {job.waiting !== null && !isTerminal(job.status) && <WaitingLine job={job} />}
      {job.end_reason === "dependency" && (
        <p class={styles["waiting"]}>
          {sentence(job.error ?? "")}. {job.remedy}
        </p>
      )}
      {job.copies_behind && (
        <p class={styles["behind"]} role="status">
          <span aria-hidden="true">⚠</span> {behindText(job.copies_behind)}
        </p>
      )}
      {job.idle && (
        <p class={styles["behind"]} role="status">
          <span aria-hidden="true">⚠</span> {idleText(job.idle)}
        </p>
      )}
      {job.last_alert && <AlertLine count={job.alerts ?? 0} alert={job.last_alert} />}
      {job.end_reason === "idle" && job.error !== null && <p class={styles["waiting"]}>Stopped: {job.error}.</p>}
      {job.attempt > 0 && (!isTerminal(job.status) || hasProgress(job)) && <ProgressLine job={job} />}
      {children}
    </header>
  );
}

function Facts({ job }: { job: Job }) {
  return (
    <dl class={styles["facts"]}>
      <Fact name="Id">
        <CopyButton text={() => job.id} label={`Copy the id ${job.id}`} class={styles["id"]}>
          {job.id}
        </CopyButton>
      </Fact>
      <Fact name="Owner">
        <a href={`/?owner=${encodeURIComponent(job.owner)}`}>{job.owner}</a>
      </Fact>
      <Fact name="Project">
        <a href={`/?project=${encodeURIComponent(job.project)}`}>{job.project}</a>
      </Fact>
      {job.study !== null && (
        <Fact name="Study">
          <a href={`/studies/${job.study}`}>{cellText(job)}</a>
        </Fact>
      )}
      {jobsBefore(job.spec).length > 0 && (
        <Fact name="After">
          {jobsBefore(job.spec).map((id) => (
            <a key={id} class={styles["label"]} href={`/jobs/${id}`}>
              {id}
            </a>
          ))}
        </Fact>
      )}
      {job.continued_from && (
        <Fact name="Continues">
          <JobName id={job.continued_from.job} /> from epoch {number(job.continued_from.epoch)}
        </Fact>
      )}
      {job.run_id && (
        <Fact name="Imported">
          run <code title="Trained with no service">{job.run_id}</code>
        </Fact>
      )}
      {job.archived && <Fact name="Archived">yes</Fact>}
      <Fact name="Submitted">
        <time dateTime={job.created_at} title={moment(job.created_at)}>
          {ago(job.created_at)}
        </time>
      </Fact>
      {Object.keys(job.labels).length > 0 && (
        <Fact name="Labels">
          {Object.entries(job.labels).map(([key, value]) => (
            <a key={key} class={styles["label"]} href={`/?label=${encodeURIComponent(`${key}:${value}`)}`}>
              {key}: {value}
            </a>
          ))}
        </Fact>
      )}
    </dl>
  );
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function WaitingLine({ job }: { job: Job }) {
  const { position, reason, starts_in_s: startsInS } = job.waiting as NonNullable<Job["waiting"]>;
  if (job.paused_at !== null) {
    return <p class={styles["waiting"]}>Paused since {moment(job.paused_at)}: it waits until a person resumes it.</p>;
  }
  return (
    <p class={styles["waiting"]} role="status">
      {position !== null && <strong>{ordinal(position)} in the queue: </strong>}
      {reason}
      {typeof startsInS === "number" &&
        ` · expected to start ${startsInS === 0 ? "soon" : `in about ${duration(startsInS)}`}`}
    </p>
  );
}

function AlertLine({ count, alert: { level, title, text } }: { count: number; alert: Alert }) {
  return (
    <p class={styles[level === "info" ? "waiting" : "behind"]} role="status">
      <span class={styles["clamped"]}>
        {level !== "info" && <span aria-hidden="true">⚠ </span>}
        <a href="?tab=events">{countText(count, "alert")}</a>: <bdi>{title}</bdi>
        {text && <bdi> · {text}</bdi>}
      </span>
    </p>
  );
}

/** Whether an ended job says how far it came. So the line stays when a job ends, and nothing below it moves. */
function hasProgress({ progress: { epoch, step, done } }: Job): boolean {
  return Boolean(epoch || step || done);
}

function ProgressLine({ job }: { job: Job }) {
  const { progress } = job;
  const text = [...stageOf(job), ...(job.status === "running" && !isProbe(job) ? paceOf(progress) : [])].join(" · ");
  const share = shareOf(progress);
  return (
    <div class={styles["progress"]}>
      {share !== null && <Meter share={share} label="Progress" text={text} />}
      <p>{text}</p>
    </div>
  );
}

/** The progress, 0..1: that in a script's own units, else of the steps, else of the epochs; null while it is unknown. */
function shareOf({ done, total, step, steps, epoch, epochs }: Progress): number | null {
  if (done != null) return total ? done / total : null;
  if (steps) return (step ?? 0) / steps;
  return epochs ? (epoch ?? 0) / epochs : null;
}

/** The progress: epoch 3 of 30, step 120 of 1,400; for a probe, its batches; for a script, first its own units. */
function stageOf(job: Job): string[] {
  const { epoch, epochs, step, steps, done, total } = job.progress;
  const of = (done: number | undefined, total: number | null | undefined): string =>
    number(done ?? 0) + (total ? ` of ${number(total)}` : "");
  if (isScript(job.spec)) {
    return [
      ...(done == null ? [] : [of(done, total)]),
      ...(epoch ? [`epoch ${of(epoch, done == null ? epochs : null)}`] : []),
      ...(step ? [`step ${of(step, steps)}`] : []),
    ];
  }
  if (!isProbe(job)) return [`epoch ${of(epoch, epochs)}`, `step ${of(step, steps)}`];
  const batch = (job.progress as Record<string, unknown>)["per_gpu_batch"];
  const best = bestPoint(job.probe);
  return [
    `${of(step, steps)} batches`,
    ...(typeof batch === "number" ? [`now ${batch} per GPU`] : []),
    ...(best === undefined ? [] : [`best so far ${best.per_gpu_batch}: ${short(best.samples_per_s)} samples/s`]),
  ];
}

/** The speed, and the time left at that speed. */
function paceOf(progress: Progress): string[] {
  const samplesPerS = (progress as Record<string, unknown>)["samples_per_s"];
  return [
    ...(typeof samplesPerS === "number" ? [`${short(samplesPerS)} samples/s`] : []),
    ...(typeof progress.eta_s === "number" ? [`${duration(progress.eta_s)} left`] : []),
  ];
}
