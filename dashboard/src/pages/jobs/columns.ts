// The columns of the table, and which are shown by default.

import { isBetterLower } from "../../metrics.ts";
import { type FieldKey, fieldOf } from "./fields.ts";
import type { Row } from "./row.ts";
import { type MetricKey, metricOf, type Sort, sortOf } from "./view.ts";

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

/** In the sequence in which they are offered. The name takes the remaining width. */
export const COLUMNS = [
  { id: "status", title: "Status", width_px: 128, sort: "status", from_px: 0 },
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
  { id: "owner", title: "Owner", width_px: 80, sort: "owner", from_px: 1340 },
  { id: "created", title: "Created", width_px: 94, sort: "created_at", isFigure: true, from_px: 0 },
  { id: "project", title: "Project", width_px: 100, sort: "project" },
  { id: "dataset", title: "Dataset", width_px: 130, sort: "dataset" },
  { id: "model", title: "Model", width_px: 110, sort: "model" },
  { id: "priority", title: "Priority", width_px: 82, sort: "priority", isFigure: true },
  { id: "started", title: "Started", width_px: 98, sort: "started_at", isFigure: true },
  { id: "ended", title: "Ended", width_px: 98, sort: "ended_at", isFigure: true },
  { id: "study", title: "Study", width_px: 130, sort: "study", hint: "The id of its study" },
  {
    id: "cell",
    title: "Cell",
    width_px: 66,
    sort: "cell",
    isFigure: true,
    hint: "Its position in the grid of its study, from 0",
  },
  { id: "stored", title: "Stored", width_px: 90, sort: "stored", isFigure: true, hint: "Checkpoints and artifacts" },
  { id: "starred", title: "Star", width_px: 62, sort: "starred" },
  { id: "archived", title: "Archived", width_px: 90, sort: "archived" },
  { id: "notes", title: "Notes", width_px: 260, sort: "notes", hint: "The beginning of its notes" },
  { id: "host", title: "Host", width_px: 120, sort: "host", hint: "The hosts of its newest attempt" },
  { id: "devices", title: "Devices", width_px: 150, hint: "The GPUs of its newest attempt" },
  { id: "gpu_hours", title: "GPU time", width_px: 90, sort: "gpu_hours", isFigure: true, hint: "Of all attempts" },
  { id: "cost", title: "Cost", width_px: 82, isFigure: true, hint: "Of its GPU time, by the present prices" },
  { id: "end_reason", title: "End", width_px: 130, sort: "end_reason", hint: "Why it ended" },
  { id: "error", title: "Error", width_px: 260, sort: "error" },
  { id: "restarts", title: "Restarts", width_px: 82, sort: "restarts", isFigure: true },
  { id: "alerts", title: "Alerts", width_px: 82, sort: "alerts", isFigure: true },
] as const satisfies readonly Column[];

export type ColumnId = (typeof COLUMNS)[number]["id"] | MetricKey | FieldKey;

/** The shown columns, from left to right. Those in `pinned` come first, and stay while the others scroll. */
export interface Choice {
  readonly ids: readonly ColumnId[];
  readonly pinned: readonly ColumnId[];
  /** In px, of those that a person made wider or narrower. */
  readonly widths?: Readonly<Record<string, number>>;
  /** Those whose figures are shown as a heat map. */
  readonly heat?: readonly string[];
}

export const MOST_COLUMNS = 60;
const LEAST_PX = 40;
const MOST_PX = 1000;

/** The columns that fit on a page of this width, the most important ones first. */
export function defaultColumns(page_px: number): ColumnId[] {
  return COLUMNS.filter((column: Column) => (column.from_px ?? Number.POSITIVE_INFINITY) <= page_px).map(
    ({ id }) => id,
  );
}

/** The columns of these names, which come from storage or from a saved view. Null if none of them is known. */
export function choiceOf(
  names: readonly unknown[],
  pinned: readonly unknown[] = [],
  { widths, heat }: Partial<Record<keyof Choice, unknown>> = {},
): Choice | null {
  const ids = [...new Set(names)].filter(isColumnId).slice(0, MOST_COLUMNS);
  if (ids.length === 0) return null;
  if (!ids.includes("name")) ids.splice(ids[0] === "status" ? 1 : 0, 0, "name"); // it links to the job
  const some = ids.filter((id) => pinned.includes(id));
  return inPlaces({ ids, pinned: some, widths: Object(widths), heat: Array.isArray(heat) ? heat : [] });
}

/** The choice in storage: JSON, or the names with commas between them that earlier versions stored. */
export function storedChoice(stored: string | null): Choice | null {
  if (stored === null) return null;
  if (!stored.startsWith("{")) return choiceOf(COLUMNS.map(({ id }) => id as string).filter(has(stored)));
  try {
    const { ids, pinned, ...look } = JSON.parse(stored) as Partial<Record<keyof Choice, unknown>>;
    return Array.isArray(ids) ? choiceOf(ids, Array.isArray(pinned) ? pinned : [], look) : null;
  } catch {
    return null;
  }
}

function has(stored: string): (name: string) => boolean {
  const names = stored.split(",");
  return (name) => names.includes(name);
}

function isColumnId(id: unknown): id is ColumnId {
  if (typeof id !== "string") return false;
  return COLUMNS.some((column) => column.id === id) || isMetricKey(id) || fieldOf(id) !== null;
}

/** Pinned columns before the others, and nothing about columns that are hidden. Equal choices have the same JSON. */
function inPlaces({ ids, pinned, widths = {}, heat = [] }: Choice): Choice {
  const isPinned = (id: ColumnId): boolean => pinned.includes(id);
  const sized = ids.filter((id) => typeof widths[id] === "number").sort();
  const warm = ids.filter((id) => heat.includes(id)).sort();
  return {
    ids: [...ids.filter(isPinned), ...ids.filter((id) => !isPinned(id))],
    pinned: ids.filter(isPinned),
    ...(sized.length > 0 && {
      widths: Object.fromEntries(
        sized.map((id) => [id, Math.round(Math.max(LEAST_PX, Math.min(MOST_PX, widths[id] as number)))]),
      ),
    }),
    ...(warm.length > 0 && { heat: warm }),
  };
}

/** The choice with a column shown at the end, or hidden. */
export function toggled(choice: Choice, id: ColumnId): Choice {
  const rest = without(choice.ids, id);
  if (rest.length === choice.ids.length && rest.length < MOST_COLUMNS) rest.push(id);
  return inPlaces({ ...choice, ids: rest });
}

/** The choice with a column pinned, after those that are, or no longer. */
export function pinToggled(choice: Choice, id: ColumnId): Choice {
  const rest = without(choice.pinned, id);
  return inPlaces({ ...choice, pinned: rest.length === choice.pinned.length ? [...rest, id] : rest });
}

/** The choice with a column at the place of another one. It stays among the pinned ones, or among the others. */
export function moved(choice: Choice, id: ColumnId, to: number): Choice {
  const rest = without(choice.ids, id);
  rest.splice(Math.max(0, Math.min(rest.length, to)), 0, id);
  return inPlaces({ ...choice, ids: rest });
}

/** The choice with a column of another width; null: its usual one. */
export function resized(choice: Choice, id: ColumnId, width_px: number | null): Choice {
  const { [id]: _, ...rest } = choice.widths ?? {};
  return inPlaces({ ...choice, widths: width_px === null ? rest : { ...rest, [id]: width_px } });
}

/** The choice with the heat map of a column on, or off. */
export function heatToggled(choice: Choice, id: ColumnId): Choice {
  const { heat = [] } = choice;
  return inPlaces({ ...choice, heat: heat.includes(id) ? without(heat, id) : [...heat, id] });
}

function without<T>(ids: readonly T[], id: T): T[] {
  return ids.filter((other) => other !== id);
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
  return ids.map((id) => {
    const column = COLUMNS.find((other) => other.id === id);
    if (column === undefined) return isMetricKey(id) ? metricColumn(id) : fieldColumn(id as FieldKey);
    if (column.id === "curve") return { ...column, title: metric || "Goal" };
    return column.id === "best" ? { ...column, ...bestOf(metric) } : column;
  });
}

function fieldColumn(id: FieldKey): Column & { readonly id: FieldKey } {
  const { kind, name } = fieldOf(id) as NonNullable<ReturnType<typeof fieldOf>>;
  const isFigure = kind !== "spec" && kind !== "label";
  const title = kind === "test" ? `test ${name}` : isFigure ? `${name}, ${kind}` : name;
  const hints = {
    spec: `${name} of the spec`,
    label: `The label ${name}`,
    last: `The newest ${name}`,
    low: `The lowest ${name}`,
    high: `The highest ${name}`,
    mean: `The mean ${name}: of the epochs, or else of the steps of rank 0`,
    test: `${name} on the test data`,
  };
  return { id, title, width_px: 120, sort: sortOf(id), isFigure, hint: hints[kind] };
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
