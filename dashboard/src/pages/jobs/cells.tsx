// The contents of a job's cells, in rows and in cards.

import type { ComponentChildren } from "preact";
import { Sparkline } from "../../charts/sparkline.tsx";
import { ago, bytes, duration, gpuTime, moment, number, secondsBetween, short, UNKNOWN, words } from "../../format.ts";
import { Meter } from "../../parts/meter.tsx";
import { Star } from "../../parts/star.tsx";
import { isTerminal, reasonOf, StatusBadge } from "../../parts/status.tsx";
import { CellOfStudy, NotesLink } from "./cell_of_study.tsx";
import styles from "./cells.module.css";
import { now } from "./clock.ts";
import type { ColumnId } from "./columns.ts";
import type { Curve } from "./curves.ts";
import { fieldOf, fieldValue, type Value } from "./fields.ts";
import { type Figures, figuresOf, inWords, metricOf } from "./figures.ts";
import { type Row, shareOf, stageOf, usageAt } from "./row.ts";
import { metricOf as metricOfKey } from "./view.ts";

export interface CellProps {
  readonly row: Row;
  /** The chosen metric; empty for the one that counts for the job. */
  readonly metric: string;
  readonly curve: Curve | undefined;
  readonly onMenu: (row: Row, event: MouseEvent) => void;
  readonly onLabel: (label: string) => void;
}

/** The content of a column. */
export function cellOf(column: ColumnId, props: CellProps): ComponentChildren {
  const { row, curve, metric } = props;
  switch (column) {
    case "status":
      return <JobStatus row={row} />;
    case "name":
      return <Name {...props} />;
    case "progress":
      return <Progress row={row} />;
    case "curve":
      return <JobCurve row={row} metric={metric} curve={curve} />;
    case "best":
      return <BestAndLast {...figuresOf(row, metricOf(row, metric), curve)} />;
    case "gpus":
      return row.gpus;
    case "batch":
      return <span title={`${number(row.per_gpu_batch)} per GPU`}>{number(row.global_batch)}</span>;
    case "rate":
      return number(row.learning_rate, 3);
    case "throughput":
      return row.samples_per_s ? short(row.samples_per_s) : UNKNOWN;
    case "duration":
      return <Duration row={row} />;
    case "created":
      return <When at={row.created_at} />;
    case "started":
      return <When at={row.started_at} />;
    case "ended":
      return <When at={row.ended_at} />;
    case "owner":
    case "project":
    case "dataset":
    case "model":
    case "host":
    case "devices":
    case "error":
      return <Field value={row[column]} />;
    case "end_reason":
      return <Field value={row.end_reason && words(row.end_reason)} />;
    case "gpu_hours":
      return gpuTime(usageAt(row, now.value).gpu_hours);
    case "cost":
      return number(usageAt(row, now.value).cost, 3);
    case "priority":
    case "restarts":
    case "alerts":
      return row[column];
    case "starred":
      return row.starred ? "★" : null;
    case "archived":
      return row.archived ? "yes" : null;
    case "notes":
      return <Field value={row.notes} />;
    case "study":
      return row.study === null ? UNKNOWN : <a href={`/studies/${row.study}`}>{row.study}</a>;
    case "cell":
      return number(row.study_cell);
    case "stored":
      return bytes(row.stored_bytes);
    default:
      if (fieldOf(column) !== null) return <Field value={fieldValue(row, column)} />;
      return <MetricValue row={row} metric={metricOfKey(column) ?? ""} />;
  }
}

function Field({ value }: { value: Value }) {
  if (value === null) return UNKNOWN;
  const text = typeof value === "number" ? number(value) : String(value);
  return (
    <span class={styles["text"]} title={String(value)}>
      <bdi>{text}</bdi>
    </span>
  );
}

function MetricValue({ row, metric }: { row: Row; metric: string }) {
  const value = row.metrics[metric];
  if (value === undefined) return UNKNOWN;
  const epoch = value.best_epoch == null ? "" : `, in epoch ${value.best_epoch}`;
  return <span title={`best ${number(value.best)}${epoch}; last ${number(value.last)}`}>{number(value.best)}</span>;
}

export function JobStatus({ row }: { row: Row }) {
  const reason = reasonOf(row.status, row.end_reason);
  return (
    <span class={styles["status"]} title={row.error ?? undefined}>
      <StatusBadge status={row.status} cancelRequestedAt={row.cancel_requested_at} pausedAt={row.paused_at} />
      {reason !== null && <span class={styles["reason"]}>{reason}</span>}
    </span>
  );
}

export function Name({ row, onMenu, onLabel }: CellProps) {
  return (
    <span class={styles["name"]}>
      <span class={styles["title"]}>
        <Star job={row} />
        <a href={`/jobs/${row.id}`} title={row.name}>
          {row.name}
        </a>
        <button
          type="button"
          class={styles["menu"]}
          aria-haspopup="true"
          aria-label={`Menu of ${row.name} ${row.id}`}
          onClick={(event) => onMenu(row, event)}
        >
          ⋯
        </button>
      </span>
      <span class={styles["more"]}>
        <span class={styles["id"]}>{row.id}</span>
        {row.archived && <span class="muted">archived</span>}
        {row.command !== null && (
          <code class={styles["command"]} title={row.command}>
            {row.command}
          </code>
        )}
        <CellOfStudy row={row} />
        {row.has_notes && <NotesLink row={row} />}
        <Labels row={row} onLabel={onLabel} />
      </span>
    </span>
  );
}

function Labels({ row, onLabel }: Pick<CellProps, "row" | "onLabel">) {
  return row.labels.map((label) => (
    <button
      key={label}
      type="button"
      class={styles["label"]}
      title={`Only jobs with the label ${label}`}
      onClick={() => onLabel(label)}
    >
      {label}
    </button>
  ));
}

export function Progress({ row }: { row: Row }) {
  if (row.waiting !== null)
    return (
      <span class={styles["waiting"]} title={row.waiting}>
        {row.waiting}
      </span>
    );
  if (row.attempt === 0) return UNKNOWN;
  const [progressText, unit] = stageOf(row);
  if (isTerminal(row.status))
    return (
      <span>
        {progressText} <span class="muted">{unit}</span>
      </span>
    );
  const left = row.eta_s === null ? "" : `${duration(row.eta_s)} left`;
  return (
    <span class={styles["progress"]}>
      <Meter share={shareOf(row)} label={`Progress of ${row.name}`} text={`${progressText} ${unit} ${left}`} />
      <span>
        {progressText} <span class="muted">{left}</span>
      </span>
    </span>
  );
}

function BestAndLast({ best, last }: Figures) {
  if (last === null) return UNKNOWN;
  return (
    <span class={styles["two"]}>
      <span>{number(best)}</span>
      <span class="muted">{number(last)}</span>
    </span>
  );
}

export function JobCurve({ row, metric: chosen, curve }: { row: Row; metric: string; curve: Curve | undefined }) {
  const metric = metricOf(row, chosen);
  if (curve === undefined || curve.y.length === 0 || metric === null) return null;
  const text = inWords(metric, figuresOf(row, metric, curve));
  return (
    <span title={text}>
      <Sparkline x={curve.x} y={curve.y} label={text} />
    </span>
  );
}

export function Duration({ row }: { row: Row }) {
  const at = row.started_at !== null && row.ended_at === null ? now.value : 0;
  return duration(wholeIfLive(secondsBetween(row.started_at, row.ended_at, at), row));
}

/** Whole seconds for a live job, whose duration still grows. */
function wholeIfLive(seconds: number | null, row: Row): number | null {
  return seconds === null || row.ended_at !== null ? seconds : Math.max(0, Math.floor(seconds));
}

/** How long ago. The date is formatted on hover, as that is slow for thousands of rows. */
export function When({ at: time }: { at: string | null }) {
  if (time === null) return UNKNOWN;
  return (
    <time dateTime={time} onMouseEnter={(event) => (event.currentTarget.title = moment(time))}>
      {ago(time, now.value)}
    </time>
  );
}
