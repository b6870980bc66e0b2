// The columns of the table, and which are shown by default.

import { isBetterLower } from "../../metrics.ts";
import type { Row } from "./row.ts";
import { type MetricKey, metricOf, type Sort } from "./view.ts";

export interface Column {
  readonly id: string;
  readonly title: string;
  readonly width_px: number;
  /** The api's sort key of the column. */
  readonly sort?: Sort;
  readonly isFigure?: boolean;
  /** An explanation beside the title. */
  readonly hint?: string;
  /** The page width from which it is shown by default; without one, it is shown only if chosen. */
  readonly from_px?: number;
}

/** From left to right. The name takes the remaining width. */
export const COLUMNS = [
  { id: "status", title: "Status", width_px: 128, from_px: 0 },
  { id: "name", title: "Name", width_px: 240, sort: "name", from_px: 0 },
  { id: "progress", title: "Progress", width_px: 168, hint: "Epochs, and the time left", from_px: 0 },
  { id: "curve", title: "Metric", width_px: 112, hint: "Epoch by epoch, over all ranks", from_px: 860 },
  { id: "best", title: "Best / last", width_px: 110, isFigure: true, from_px: 950 },
  { id: "gpus", title: "GPUs", width_px: 62, sort: "gpus", isFigure: true, from_px: 1120 },
  {
    id: "batch",
    title: "Batch",
    width_px: 66,
    sort: "batch_size",
    isFigure: true,
    hint: "Global batch: of all GPUs together",
    from_px: 1190,
  },
  {
    id: "rate",
    title: "Rate",
    width_px: 74,
    sort: "learning_rate",
    isFigure: true,
    hint: "The learning rate after scaling",
    from_px: 1260,
  },
  {
    id: "throughput",
    title: "Samples/s",
    width_px: 96,
    sort: "train_samples_per_s",
    isFigure: true,
    hint: "Mean of the whole training; of the newest step while the job runs",
    from_px: 1440,
  },
  { id: "duration", title: "Duration", width_px: 104, sort: "duration", isFigure: true, from_px: 1060 },
  { id: "owner", title: "Owner", width_px: 80, from_px: 1340 },
  { id: "created", title: "Created", width_px: 94, sort: "created_at", isFigure: true, from_px: 0 },
  { id: "project", title: "Project", width_px: 100 },
  { id: "dataset", title: "Dataset", width_px: 130 },
  { id: "model", title: "Model", width_px: 110 },
  { id: "priority", title: "Priority", width_px: 82, sort: "priority", isFigure: true },
  { id: "started", title: "Started", width_px: 98, sort: "started_at", isFigure: true },
  { id: "ended", title: "Ended", width_px: 98, sort: "ended_at", isFigure: true },
] as const satisfies readonly Column[];

export type ColumnId = (typeof COLUMNS)[number]["id"] | MetricKey;

/** The columns that fit on a page of this width, the most important ones first. */
export function defaultColumns(page_px: number): ColumnId[] {
  return COLUMNS.filter((column: Column) => (column.from_px ?? Number.POSITIVE_INFINITY) <= page_px).map(
    ({ id }) => id,
  );
}

/** The chosen columns from storage; null if there is no choice. The name is always among them, metrics come last. */
export function chosenColumns(stored: string | null): ColumnId[] | null {
  const names = stored?.split(",") ?? [];
  const chosen = COLUMNS.filter(({ id }) => id === "name" || names.includes(id)).map(({ id }): ColumnId => id);
  chosen.push(...new Set(names.filter(isMetricKey)));
  return chosen.length > 1 ? chosen : null;
}

function isMetricKey(id: string): id is MetricKey {
  return metricOf(id) !== null;
}

/** The columns for metrics that the rows have, and those that are shown. */
export function metricColumns(rows: readonly Row[], shown: readonly ColumnId[]): MetricKey[] {
  const ofRows = new Set(rows.flatMap(({ metrics }) => Object.keys(metrics)));
  return [
    ...new Set([...shown.filter(isMetricKey), ...[...ofRows].sort().map((name): MetricKey => `metrics.${name}`)]),
  ];
}

/** The metric that all rows show; empty if each shows its own. */
export function commonMetric(rows: readonly Row[], chosen: string): string {
  if (chosen !== "") return chosen;
  const names = new Set(rows.map((row) => row.goal_metric).filter((name) => name !== null));
  return names.size === 1 ? ([...names][0] as string) : "";
}

/** The columns of these ids, with titles and hints for the metric; an empty metric is the one of each job's goal. */
export function columnsOf(ids: readonly ColumnId[], metric: string): (Column & { readonly id: ColumnId })[] {
  const ofJobs = COLUMNS.filter(({ id }) => ids.includes(id)).map((column) => {
    if (column.id === "curve") return { ...column, title: metric || "Goal" };
    return column.id === "best" ? { ...column, ...bestOf(metric) } : column;
  });
  return [...ofJobs, ...ids.filter(isMetricKey).map(metricColumn)];
}

function bestOf(metric: string): Pick<Column, "sort" | "hint"> {
  if (metric === "") return { hint: "The best value of the metric that counts for the job, and the newest" };
  const hint = `The ${least(metric)} ${metric} of all epochs, and the newest`;
  if (metric !== "val_accuracy" && metric !== "val_loss") return { sort: `metrics.${metric}`, hint };
  return { sort: metric, hint: `${hint}. Sorts by the epoch whose weights were kept` };
}

function metricColumn(id: MetricKey): Column & { readonly id: MetricKey } {
  const metric = metricOf(id) as string;
  return {
    id,
    title: metric,
    width_px: 110,
    sort: id,
    isFigure: true,
    hint: `The ${least(metric)} ${metric} of the job`,
  };
}

function least(metric: string): string {
  return isBetterLower(metric) ? "least" : "greatest";
}
