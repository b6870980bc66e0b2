// The points in view as CSV: a row for each point of each line, so that lines with points at other places fit too.

import { type Cell, csvLine } from "../../csv.ts";
import { fromLog, type Line } from "../lines.ts";
import type { Picture } from "./drawing.ts";

type Column = readonly [title: string, of: (line: Line, i: number) => Cell];

type Points = Pick<Picture, "lines" | "range" | "xName" | "isLogX">;

/** The file. Columns that no line has are left out. */
export function pointsCsv({ lines, range: [from, to], xName, isLogX }: Points): string {
  const names = lines.find(({ spread }) => spread)?.spread?.names ?? [];
  const columns: Column[] = [["value", ({ ys }, i) => ys[i] as number]];
  const add = (
    hasAny: (line: Line) => boolean,
    title: string,
    of: (line: Line, i: number) => number | undefined,
  ): void => {
    if (lines.some(hasAny)) columns.push([title, (line, i) => of(line, i) ?? null]);
  };
  add(
    ({ smooth }) => smooth !== undefined,
    "smoothed",
    ({ smooth }, i) => smooth?.[i],
  );
  add(
    ({ spread }) => spread !== undefined && !spread.isDeviation,
    names[0] ?? "min",
    ({ spread }, i) => spread?.low[i],
  );
  add(
    ({ spread }) => spread !== undefined && !spread.isDeviation,
    names[1] ?? "max",
    ({ spread }, i) => spread?.high[i],
  );
  add(
    ({ spread }) => spread?.isDeviation === true,
    names[0] ?? "std",
    ({ spread, ys }, i) => spread && (spread.high[i] as number) - (ys[i] as number),
  );
  add(
    ({ counts }) => counts !== undefined,
    "n",
    ({ counts }, i) => counts?.[i],
  );
  const rows = lines.flatMap((line) =>
    Array.from(line.xs, (x, i) => [x, i] as const)
      .filter(([x, i]) => x >= from && x <= to && Number.isFinite(line.ys[i]))
      .map(([x, i]) => csvLine([isLogX ? fromLog(x) : x, line.name, ...columns.map(([, of]) => of(line, i))])),
  );
  // With the mark by which Excel knows UTF-8.
  return `\ufeff${csvLine([xName, "line", ...columns.map(([title]) => title)])}${rows.join("")}`;
}
