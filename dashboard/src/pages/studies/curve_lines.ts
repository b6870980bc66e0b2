// The lines of a study's learning curves: one for each cell, with the range of its repeats. Pure.

import type { CellCurve, StudyCurves, StudyReport } from "../../api/types.ts";
import type { Line } from "../../charts/lines.ts";
import { runColour, runDash } from "../../charts/palette.ts";
import { othersKey } from "./figures.ts";

/** More areas than this cover each other. */
const MOST_SPREADS = 8;

/** The lines of a metric. A cell has the same colour on every chart. `hidden` are keys of lines that are not shown. */
export function curveLines(
  report: StudyReport,
  cells: StudyCurves["curves"][number]["cells"],
  hidden: ReadonlySet<string>,
): Line[] {
  const lines = cells.flatMap((curve, place) => {
    const cell = report.cells[place];
    return curve === null || cell === undefined ? [] : [lineOf(curve, othersKey(cell) || "all", place)];
  });
  const hasRoom = lines.filter(({ key }) => !hidden.has(key)).length <= MOST_SPREADS;
  return hasRoom ? lines : lines.map(({ spread: _, ...line }) => line);
}

function lineOf({ epoch, mean, low, high, repeats }: CellCurve, name: string, place: number): Line {
  return {
    key: String(place),
    name,
    xs: epoch,
    ys: numbers(mean),
    ...(repeats > 1 ? { spread: { low: numbers(low), high: numbers(high) } } : {}),
    colour: runColour(place),
    dash: runDash(place),
  };
}

function numbers(values: readonly (number | null)[]): Float64Array {
  return Float64Array.from(values, (value) => value ?? Number.NaN);
}
