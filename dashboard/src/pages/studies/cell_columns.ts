// The columns of the table of cells: labels, formats and sort values. Pure.

import type { CellReport, StudyReport } from "../../api/types.ts";
import { duration, gpuTime, number, percent, short, words } from "../../format.ts";
import { metricText } from "../../metrics.ts";
import { byValue } from "../../order.ts";
import {
  fieldLabel,
  goalOf,
  type IntervalKey,
  intervalText,
  type MetricKey,
  metricKeys,
  metricOf,
  valueText,
} from "./figures.ts";

export interface Column {
  readonly key: string;
  readonly label: string;
  readonly title?: string;
  /** The name of the figure among the best ones of the report, if it is not the key. */
  readonly bestKey?: string;
  readonly format: (cell: CellReport) => string;
  /** The value to sort by. */
  readonly sortValue: (cell: CellReport) => number | string | null;
}

const threeDigits = (value: number): string => number(value, 3);

function interval(key: IntervalKey, label: string, format: (value: number) => string, title?: string): Column {
  const of = (cell: CellReport): number | null => cell[key]?.mean ?? null;
  const text = (cell: CellReport): string => intervalText(cell[key] ?? null, format);
  return { key, label, ...(title ? { title } : {}), sortValue: of, format: text };
}

function share(
  key: "speedup" | "throughput_speedup" | "efficiency" | "speedup_vs_cpu",
  label: string,
  format: (value: number) => string,
  title: string,
): Column {
  return {
    key,
    label,
    title,
    sortValue: (cell) => cell[key] ?? null,
    format: (cell) => (cell[key] == null ? "–" : format(cell[key])),
  };
}

/** A metric of the jobs. */
function metric(key: MetricKey, isGoal: boolean): Column {
  const name = metricOf(key);
  const of = (cell: CellReport) => cell.metrics?.[name] ?? null;
  return {
    key,
    label: metricText(name),
    title: isGoal ? "The goal, by which cells are compared" : "The best value of each repeat",
    ...(isGoal ? { bestKey: "goal" } : {}),
    sortValue: (cell) => of(cell)?.mean ?? null,
    format: (cell) => intervalText(of(cell), number),
  };
}

const FEW = 6; // columns of metrics beside the chosen ones

/** The metrics with a column: the goal and a few others, and those that a person chose. */
export function shownMetrics(report: StudyReport, chosen: readonly string[]): MetricKey[] {
  return metricKeys(report).filter((key, place) => place < FEW || chosen.includes(metricOf(key)));
}

const FIGURES: readonly Column[] = [
  interval("wall_s", "time", duration, "Training time with validation and checkpoints, without set-up"),
  interval("epoch_s", "epoch time", duration, "Training time of an epoch"),
  interval("samples_per_s", "samples/s", short),
  interval("val_accuracy", "val accuracy", number),
  {
    key: "accuracy_agreement",
    label: "vs baseline",
    title: "Mean of the goal minus that of the same cell at the baseline",
    sortValue: (cell) => cell.accuracy_agreement?.difference ?? null,
    format: differenceText,
  },
  {
    key: "loss_agreement",
    label: "loss curves",
    title: "Mean distance of the loss curves from those of the same cell at the baseline",
    sortValue: (cell) => Object.values(cell.loss_agreement)[0]?.relative ?? null,
    format: curvesText,
  },
  share("speedup", "speed-up", threeDigits, "Training time at the baseline divided by that of the cell"),
  share(
    "throughput_speedup",
    "by samples/s",
    threeDigits,
    "Samples/s of the cell divided by those at the baseline: the speed-up of the steps alone",
  ),
  share("efficiency", "efficiency", percent, "Speed-up as a share of the ideal"),
  share("speedup_vs_cpu", "vs CPU", threeDigits, "Training time of the same cell on CPUs divided by that of the cell"),
  interval(
    "allreduce_share",
    "allreduce",
    percent,
    "Share of the steps' time in allreduce, with the wait for slower ranks; on a GPU also the backward pass",
  ),
  interval("time_to_target_s", "to target", duration, "Training time to the target, if every repeat reached it"),
  interval("gpu_hours_to_target", "slot time to target", gpuTime),
  interval("gpu_hours", "slot time", gpuTime, "All of the leased time, set-up included"),
  interval("cost", "cost", threeDigits, "What the slot time costs by the service's present prices"),
  interval("epochs_run", "epochs", threeDigits),
  interval("setup_s", "set-up", duration),
];

/** The columns in which at least one cell has a value. */
export function columnsOf(report: StudyReport, chosenMetrics: readonly string[] = []): Column[] {
  const goal = goalOf(report).metric;
  const metrics = shownMetrics(report, chosenMetrics).map((key) => metric(key, metricOf(key) === goal));
  const isGoal = ({ bestKey }: Column): boolean => bestKey === "goal";
  const values = report.varied.map(
    (field): Column => ({
      key: `values.${field}`,
      label: fieldLabel(field),
      sortValue: ({ values }) => (typeof values[field] === "number" ? values[field] : valueText(values[field])),
      format: ({ values }) => valueText(values[field]),
    }),
  );
  const hosts: Column = {
    key: "hosts",
    label: "hosts",
    sortValue: (cell) => cell.hosts,
    format: ({ hosts }) => String(hosts ?? "–"),
  };
  const repeats: Column = {
    key: "repeats",
    label: "repeats",
    title: "Repeats that succeeded; the figures come from these",
    sortValue: (cell) => cell.repeats,
    format: (cell) => repeatsText(cell, report.repeats),
  };
  return [
    ...values,
    ...(report.cells.some((cell) => (cell.hosts ?? 1) > 1) ? [hosts] : []),
    repeats,
    ...metrics.filter(isGoal),
    ...FIGURES.filter((column) => report.cells.some((cell) => column.format(cell) !== "–")),
    ...metrics.filter((column) => !isGoal(column)),
  ];
}

/** 3, or 1 of 3, 1 failed or cancelled (diverged), 1 to come. */
export function repeatsText(cell: CellReport, planned: number): string {
  const mark = cell.with_outliers ? "*" : ""; // a run stalled
  if (cell.repeats === planned) return planned + mark;
  const reasons = cell.failures.map(({ end_reason }) => words(end_reason)).join(", ");
  const rest = [
    cell.failed > 0 ? `${cell.failed} failed or cancelled${reasons && ` (${reasons})`}` : "",
    cell.unfinished > 0 ? `${cell.unfinished} to come` : "",
  ].filter(Boolean);
  return [`${cell.repeats}${mark} of ${planned}`, ...rest].join(", ");
}

/** -0.012, and whether the difference is more than chance. */
function differenceText({ accuracy_agreement: agreement }: CellReport): string {
  if (agreement === null) return "–";
  const difference = `${agreement.difference < 0 ? "−" : "+"}${Math.abs(agreement.difference).toFixed(4)}`;
  return agreement.agrees === null ? `${difference} ?` : agreement.agrees ? difference : `${difference} differs`;
}

/** loss 0.4 %, val loss 12 % differs. */
function curvesText({ loss_agreement: agreements }: CellReport): string {
  const texts = Object.entries(agreements).map(([name, { difference, relative, agrees }]) => {
    if (difference === null) return `${metricText(name)} diverged`;
    const away = relative === null ? number(difference, 2) : `${number(100 * relative, 2)}\u00a0%`;
    return `${metricText(name)} ${away}${agrees === null ? " ?" : agrees ? "" : " differs"}`;
  });
  return texts.join(", ") || "–";
}

/** The cells with their positions in the grid, sorted by a column. Cells without a figure come last. */
export function sortedCells(report: StudyReport, columns: readonly Column[], sort: string): [CellReport, number][] {
  const cells = report.cells.map((cell, position): [CellReport, number] => [cell, position]);
  const column = columns.find(({ key }) => key === sort.replace(/^-/, ""));
  if (column === undefined) return cells;
  return cells.sort(([a], [b]) => byValue(column.sortValue(a), column.sortValue(b), sort.startsWith("-")));
}

/** The sort parameter after a click on a column header. */
export function nextSort(sort: string, key: string): string {
  if (sort === key) return `-${key}`;
  return sort === `-${key}` ? "" : key;
}

/** How a table is sorted by a column. */
export function sortedBy(sort: string, key: string): "ascending" | "descending" | "none" {
  return sort === key ? "ascending" : sort === `-${key}` ? "descending" : "none";
}
