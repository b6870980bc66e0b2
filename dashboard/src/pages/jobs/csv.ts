// The jobs of a view as a CSV file (RFC 4180): what the table shows, for all jobs that match, page by page.

import { csvLine } from "../../csv.ts";
import { secondsBetween } from "../../format.ts";
import type { ColumnId } from "./columns.ts";
import { fieldValue, type Value } from "./fields.ts";
import { figuresOf, metricOf } from "./figures.ts";
import { type Row, shareOf } from "./row.ts";
import { metricOf as metricOfKey } from "./view.ts";

export const MOST_JOBS = 100_000;

type Read = (row: Row) => Value;

/** The columns of the file for those of the table: exact values in base units, with their names in the API. */
export function csvColumns(ids: readonly ColumnId[], chosenMetric: string, now: number): [title: string, of: Read][] {
  const metric = (row: Row): string | null => metricOf(row, chosenMetric);
  const figures = (row: Row) => figuresOf(row, metric(row), undefined);
  const known: Record<string, [title: string, of: Read][]> = {
    progress: [["progress", shareOf]],
    curve: [],
    best: [
      ["metric", metric],
      ["best", (row) => figures(row).best],
      ["last", (row) => figures(row).last],
    ],
    batch: [["global_batch", (row) => row.global_batch]],
    rate: [["learning_rate", (row) => row.learning_rate]],
    throughput: [["samples_per_s", (row) => row.samples_per_s]],
    duration: [
      ["duration_s", (row) => (row.started_at === null ? null : secondsBetween(row.started_at, row.ended_at, now))],
    ],
    created: [["created_at", (row) => row.created_at]],
    started: [["started_at", (row) => row.started_at]],
    ended: [["ended_at", (row) => row.ended_at]],
    cell: [["study_cell", (row) => row.study_cell]],
    stored: [["stored_bytes", (row) => row.stored_bytes]],
  };
  const others = (id: string): [string, Read][] => {
    const name = metricOfKey(id);
    if (name !== null) return [[id, (row) => row.metrics[name]?.best ?? null]];
    if (id.includes(".")) return [[id, (row) => fieldValue(row, id)]];
    return [[id, (row) => (row[id as keyof Row] as Value | undefined) ?? null]];
  };
  return [["id", (row) => row.id], ...ids.flatMap((id) => known[id] ?? others(id))];
}

interface Page {
  readonly rows: readonly Row[];
  readonly nextCursor: string | null;
}

export interface Export {
  readonly parts: readonly string[];
  readonly count: number;
  /** Whether there are more jobs than a file may have. */
  readonly isCut: boolean;
}

/** The file, as one part for each page. `onPage` gets the number of jobs so far. */
export async function csvOf(
  ids: readonly ColumnId[],
  metric: string,
  readPage: (cursor: string | null) => Promise<Page>,
  onPage: (count: number) => void,
): Promise<Export> {
  const columns = csvColumns(ids, metric, Date.now());
  const parts = [`\ufeff${csvLine(columns.map(([title]) => title))}`]; // with the mark by which Excel knows UTF-8
  const written = new Set<string>();
  let cursor: string | null = null;
  do {
    const page: Page = await readPage(cursor);
    // A job that moved in the order while the pages were read comes once.
    const rows = page.rows.filter(({ id }) => !written.has(id)).slice(0, MOST_JOBS - written.size);
    for (const { id } of rows) written.add(id);
    parts.push(rows.map((row) => csvLine(columns.map(([, read]) => read(row)))).join(""));
    onPage(written.size);
    cursor = page.nextCursor;
  } while (cursor !== null && written.size < MOST_JOBS);
  return { parts, count: written.size, isCut: cursor !== null };
}
