// The data of a study's charts, from its report: groups, series, lines and matrix cells. Pure.

import type { CellReport, StudyReport } from "../../api/types.ts";
import type { Series } from "../../charts/bars.tsx";
import { runColour, runDash } from "../../charts/palette.ts";
import type { PointLine } from "../../charts/point_chart.tsx";
import { extentOf, shareOf } from "../../charts/ramp.ts";
import { countText } from "../../format.ts";
import { estimateOf, type Figure, fieldLabel, goalFigure, othersKey, slotNoun, valueText } from "./figures.ts";

/** The field of the x axis: GPUs if they vary, else the first field. */
export function mainField(report: StudyReport): string {
  return report.varied.includes("gpus") ? "gpus" : (report.varied[0] ?? "");
}

/** The distinct values of a field as texts, in the order of the grid. */
export function valuesOf(report: StudyReport, field: string): string[] {
  return [...new Set(report.cells.map((cell) => valueText(cell.values[field] ?? "all")))];
}

/** Bars: a group for each value of the main field, a series for each combination of the others. */
export function barsOf(report: StudyReport, figure: Figure): { groups: string[]; series: Series[] } {
  const field = mainField(report);
  const groups = valuesOf(report, field);
  const series = linesBy(report, field).map(([name, cells], index) => ({
    name,
    colour: runColour(index),
    dash: runDash(index),
    values: groups.map((group) => {
      const cell = cells.find(({ values }) => valueText(values[field] ?? "all") === group);
      return cell === undefined ? null : estimateOf(report, cell, figure.key);
    }),
  }));
  return { groups, series };
}

/** Speed-up over GPUs: a line for each combination of the other fields that has a speed-up. */
export function speedupLines(report: StudyReport): PointLine[] {
  return linesBy(report, "gpus").flatMap(([name, cells], index) => {
    const points = cells
      .toSorted((a, b) => a.gpus - b.gpus)
      .flatMap((cell) => {
        const estimate = estimateOf(report, cell, "speedup");
        return estimate === null ? [] : [{ ...estimate, x: cell.gpus, label: countText(cell.gpus, slotNoun(report)) }];
      });
    return points.length === 0 ? [] : [{ name, colour: runColour(index), dash: runDash(index), points }];
  });
}

/** Slot time and the goal: a point for each cell, in the colour of its value of the main field. */
export function costLines(report: StudyReport): PointLine[] {
  const field = mainField(report);
  return valuesOf(report, field).flatMap((value, index) => {
    const points = report.cells
      .filter((cell) => valueText(cell.values[field] ?? "all") === value)
      .flatMap((cell) => {
        const estimate = estimateOf(report, cell, goalFigure(report).key);
        return estimate === null || cell.gpu_hours === null
          ? []
          : [{ ...estimate, x: cell.gpu_hours.mean, label: othersKey(cell) || "all" }];
      });
    return points.length === 0
      ? []
      : [{ name: `${fieldLabel(field)} ${value}`.trim(), colour: runColour(index), points }];
  });
}

function linesBy(report: StudyReport, field: string): [string, CellReport[]][] {
  const groups = new Map<string, CellReport[]>();
  for (const cell of report.cells) {
    const key = othersKey(cell, [field]);
    groups.set(key, [...(groups.get(key) ?? []), cell]);
  }
  return [...groups];
}

export interface MatrixCell {
  readonly mean: number;
  /** The number of cells that it is the mean of. */
  readonly count: number;
  /** Its position between the least and the greatest: 0..1. */
  readonly share: number;
}

/** A figure by two fields: the mean of the cells that differ in other fields. */
export function matrixOf(
  report: StudyReport,
  [row, column]: readonly [string, string],
  figure: Figure,
): { rows: string[]; columns: string[]; cell: (row: string, column: string) => MatrixCell | null } {
  const valuesByPlace = new Map<string, number[]>();
  for (const cell of report.cells) {
    const estimate = estimateOf(report, cell, figure.key);
    if (estimate === null) continue;
    const key = placeKey(valueText(cell.values[row]), valueText(cell.values[column]));
    valuesByPlace.set(key, [...(valuesByPlace.get(key) ?? []), estimate.value]);
  }
  const means = new Map(
    [...valuesByPlace].map(([key, values]) => [key, values.reduce((a, b) => a + b) / values.length]),
  );
  const extent = extentOf(means.values()) ?? [0, 0];
  return {
    rows: valuesOf(report, row),
    columns: valuesOf(report, column),
    cell: (inRow, inColumn) => {
      const key = placeKey(inRow, inColumn);
      const mean = means.get(key);
      if (mean === undefined) return null;
      return { mean, count: valuesByPlace.get(key)?.length ?? 0, share: shareOf(mean, extent) };
    },
  };
}

function placeKey(row: string, column: string): string {
  return JSON.stringify([row, column]);
}
