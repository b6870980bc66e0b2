// The figures of a study's cells: label, better direction and format. Pure; from the report.

import type { CellReport, Interval, StudyReport } from "../../api/types.ts";
import type { Estimate } from "../../charts/points.ts";
import { duration, gpuTime, number, percent, short, words } from "../../format.ts";
import { type Goal, inOrder, isBetterLower, metricText } from "../../metrics.ts";

/** Figures of which a cell has a mean and an interval. */
export type IntervalKey =
  | "wall_s"
  | "setup_s"
  | "samples_per_s"
  | "val_accuracy"
  | "epochs_run"
  | "epoch_s"
  | "allreduce_share"
  | "time_to_target_s"
  | "gpu_hours_to_target"
  | "gpu_hours"
  | "cost";

/** A metric that the jobs report. */
export type MetricKey = `metrics.${string}`;

export type FigureKey = IntervalKey | MetricKey | "speedup" | "throughput_speedup" | "efficiency" | "speedup_vs_cpu";

export interface Figure {
  readonly key: FigureKey;
  readonly label: string;
  readonly better?: "more" | "less";
  /** Its charts begin at zero. Accuracies are near 1, where bars from zero all look the same. */
  readonly isFromZero: boolean;
  /** The greatest possible value. */
  readonly maximum?: number;
  readonly format: (value: number) => string;
}

const fewDigits = (value: number): string => number(value, 3);

export const FIGURES: readonly Figure[] = [
  { key: "wall_s", label: "training time", better: "less", isFromZero: true, format: duration },
  { key: "samples_per_s", label: "samples/s", better: "more", isFromZero: true, format: short },
  { key: "val_accuracy", label: "val accuracy", better: "more", isFromZero: false, maximum: 1, format: fewDigits },
  { key: "time_to_target_s", label: "time to target", better: "less", isFromZero: true, format: duration },
  { key: "gpu_hours_to_target", label: "slot time to target", better: "less", isFromZero: true, format: gpuTime },
  { key: "gpu_hours", label: "slot time", better: "less", isFromZero: true, format: gpuTime },
  { key: "cost", label: "cost", better: "less", isFromZero: true, format: fewDigits },
  { key: "setup_s", label: "set-up", isFromZero: true, format: duration },
  { key: "epochs_run", label: "epochs", isFromZero: true, format: fewDigits },
  { key: "epoch_s", label: "time of an epoch", better: "less", isFromZero: true, format: duration },
  { key: "allreduce_share", label: "allreduce share", better: "less", isFromZero: true, format: percent },
  { key: "speedup", label: "speed-up", isFromZero: true, format: (value) => number(value, 3) },
  { key: "throughput_speedup", label: "speed-up by samples/s", isFromZero: true, format: fewDigits },
  { key: "speedup_vs_cpu", label: "speed-up against the CPU", better: "more", isFromZero: true, format: fewDigits },
  { key: "efficiency", label: "efficiency", isFromZero: true, format: percent },
];

const ACCURACY = "val_accuracy";

/** The metric by which the cells are compared. A report of jobs without metrics names none. */
export function goalOf(report: StudyReport): Goal {
  return report.goal ?? { metric: report.target?.metric ?? ACCURACY };
}

/** The figure of the goal. */
export function goalFigure(report: StudyReport): Figure {
  const { metric } = goalOf(report);
  return metric === ACCURACY ? figureOf(ACCURACY) : metricFigure(`metrics.${metric}`, report);
}

/** A figure that does not depend on the study. */
export function figureOf(key: Exclude<FigureKey, MetricKey>): Figure {
  return FIGURES.find((figure) => figure.key === key) as Figure;
}

/** The figure that a person chose: else the goal, or the time if GPUs vary. */
export function chosenFigure(key: string, report: StudyReport): Figure {
  const chosen = figuresOf(report).find((figure) => figure.key === key);
  return chosen ?? (report.varied.includes("gpus") ? figureOf("wall_s") : goalFigure(report));
}

/** The figures that at least one cell has. */
export function figuresOf(report: StudyReport): readonly Figure[] {
  const usual = FIGURES.filter(({ key }) => report.cells.some((cell) => intervalOf(cell, key) !== null));
  return [...usual, ...metricKeys(report).map((key) => metricFigure(key, report))];
}

/** The metrics of the cells that have no figure of their own, the goal first. */
export function metricKeys(report: StudyReport): MetricKey[] {
  const names = new Set(report.cells.flatMap(({ metrics }) => Object.keys(metrics ?? {})));
  names.delete(ACCURACY);
  return inOrder(names, goalOf(report).metric).map((name): MetricKey => `metrics.${name}`);
}

function metricFigure(key: MetricKey, report: StudyReport): Figure {
  const metric = metricOf(key);
  const better = isBetterLower(metric, goalOf(report)) ? "less" : "more";
  return { key, label: metricText(metric), better, isFromZero: false, format: fewDigits };
}

export function metricOf(key: MetricKey): string {
  return key.slice("metrics.".length);
}

function isMetric(key: FigureKey): key is MetricKey {
  return key.startsWith("metrics.");
}

function intervalOf(cell: CellReport, key: FigureKey): Interval | number | null {
  return (isMetric(key) ? cell.metrics?.[metricOf(key)] : cell[key]) ?? null;
}

/** A figure of a cell with its interval; null if the cell has no such figure. */
export function estimateOf(report: StudyReport, cell: CellReport, key: FigureKey): Estimate | null {
  if (key === "speedup") return speedupOf(report, cell);
  const value = intervalOf(cell, key);
  if (value === null) return null;
  if (typeof value === "number") return { value, low: null, high: null };
  return { value: value.mean, low: value.low, high: value.high };
}

/** The interval comes from this cell's time. The baseline's time is taken as exact. */
function speedupOf(report: StudyReport, cell: CellReport): Estimate | null {
  const base = report.cells.find(
    (other) => other.gpus === report.baseline?.gpus && othersKey(other, ["gpus"]) === othersKey(cell, ["gpus"]),
  );
  if (cell.speedup === null) return null;
  const [own, mean] = [cell.wall_s, base?.wall_s?.mean];
  if (own?.low == null || own.high === null || own.low <= 0 || mean === undefined)
    return { value: cell.speedup, low: null, high: null };
  return { value: cell.speedup, low: mean / own.high, high: mean / own.low };
}

/** What the slots of a study are. */
export function slotNoun(report: StudyReport): string {
  return report.device === "cpu" ? "CPU slot" : "GPU";
}

export function fieldLabel(field: string): string {
  if (field.startsWith("params.")) return field;
  return field === "gpus" ? "GPUs" : words(field.replaceAll(".", " "));
}

/** A value of a field as a person wrote it. */
export function valueText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** The values of a cell except some fields, in words: batch size 32, learning rate 0.001. */
export function othersKey(cell: Pick<CellReport, "values">, without: readonly string[] = []): string {
  return Object.entries(cell.values)
    .filter(([field]) => !without.includes(field))
    .map(([field, value]) => `${fieldLabel(field)} ${valueText(value)}`)
    .join(", ");
}

/** 12.3 s ± 0.4 s for a symmetric interval. Without an interval, the mean alone. */
export function intervalText(interval: Interval | null, format: (value: number) => string): string {
  if (interval === null) return "–";
  return estimateText({ value: interval.mean, low: interval.low, high: interval.high }, format);
}

export function estimateText({ value, low, high }: Estimate, format: (value: number) => string): string {
  if (low === null || high === null) return format(value);
  const isSymmetric = Math.abs(high - value - (value - low)) <= 1e-6 * Math.abs(high - low);
  return isSymmetric
    ? `${format(value)} ± ${format(twoDigits(high - value))}`
    : `${format(value)} (${format(low)} to ${format(high)})`;
}

/** More digits of an interval mean nothing. */
function twoDigits(value: number): number {
  return Number(value.toPrecision(2));
}
