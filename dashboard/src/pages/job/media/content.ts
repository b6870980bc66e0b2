// What is in the JSON of a job's media. A script may have written anything into these files, so nothing is taken for granted.

import type { Line } from "../../../charts/lines.ts";
import { runColour, runDash } from "../../../charts/palette.ts";

type Fields = Readonly<Record<string, unknown>>;

const MOST_CLASSES = 40; // with more, nobody could read a matrix

const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
const fields = (value: unknown): Fields => (value ?? {}) as Fields;
const figure = (value: unknown): number => (typeof value === "number" ? value : Number.NaN);

/** Text of a cell. */
export const text = (value: unknown): string => (value == null ? "–" : String(value));

/** The lines of a curve, or the outline of a histogram. */
export function linesOf(content: unknown): { xName: string; yName: string; lines: Line[] } {
  const { x_name: xName = "value", y_name: yName = "count", counts, edges, lines } = fields(content);
  const outline = { x: list(edges).flatMap((edge) => [edge, edge]), y: [0, ...list(counts).flatMap((n) => [n, n]), 0] };
  return {
    xName: text(xName),
    yName: text(yName),
    lines: (lines === undefined ? [outline] : list(lines)).map((line, place) => {
      const { name, x, y } = fields(line);
      const points = list(x)
        .map((each, index) => [figure(each), figure(list(y)[index])] as const)
        .filter(([each]) => Number.isFinite(each));
      return {
        key: `${place}`,
        name: text(name ?? yName),
        xs: points.map(([each]) => each),
        ys: points.map(([, each]) => each),
        colour: runColour(place),
        dash: runDash(place),
      };
    }),
  };
}

export interface Cell {
  readonly text: string;
  /** How much of its row a cell of a matrix has, 0..1. */
  readonly share?: number;
}

export interface Rows {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly Cell[])[];
}

/** The cells of a table. */
export function tableOf(content: unknown): Rows {
  const { columns, rows } = fields(content);
  return {
    columns: list(columns).map(text),
    rows: list(rows).map((row) => list(row).map((cell) => ({ text: text(cell) }))),
  };
}

/** The cells of a confusion matrix. Of very many classes, those pairs that are confused most. */
export function matrixOf(content: unknown): Rows {
  const { labels, counts } = fields(content);
  const names = list(labels).map(text);
  const matrix = names.map((_, row) => names.map((__, column) => figure(list(list(counts)[row])[column])));
  if (names.length > MOST_CLASSES) {
    const pairs = matrix.flatMap((row, i) => row.flatMap((n, j) => (i !== j && n > 0 ? [{ n, i, j }] : [])));
    return {
      columns: ["Truth", "Predicted", "Count"],
      rows: pairs
        .sort((a, b) => b.n - a.n)
        .map(({ n, i, j }) => [{ text: names[i] as string }, { text: names[j] as string }, { text: text(n) }]),
    };
  }
  return {
    columns: ["Truth \\ predicted", ...names],
    rows: matrix.map((row, i) => {
      const all = row.reduce((sum, n) => sum + n, 0);
      return [{ text: names[i] as string }, ...row.map((n) => ({ text: text(n), share: n / Math.max(all, 1) }))];
    }),
  };
}
