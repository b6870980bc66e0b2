// Which jobs are selected. A job stays selected while its row is filtered away or out of view.

import type { Row } from "./row.ts";

/** By id, in their state when they were selected. */
export type Selection = ReadonlyMap<string, Row>;

export const NO_SELECTION: Selection = new Map();

export function toggled(selection: Selection, row: Row): Selection {
  const next = new Map(selection);
  if (!next.delete(row.id)) next.set(row.id, row);
  return next;
}

/** The selection after `row` was toggled and all rows between it and `anchor` follow it. */
export function extended(selection: Selection, rows: readonly Row[], anchor: string | null, row: Row): Selection {
  const from = rows.findIndex(({ id }) => id === anchor);
  const to = rows.findIndex(({ id }) => id === row.id);
  if (from < 0 || to < 0) return toggled(selection, row);
  const isOn = !selection.has(row.id);
  const next = new Map(selection);
  for (const each of rows.slice(Math.min(from, to), Math.max(from, to) + 1)) {
    if (isOn) next.set(each.id, each);
    else next.delete(each.id);
  }
  return next;
}

/** Whether all, some or none of the shown rows are selected. */
export function extentOf(selection: Selection, rows: readonly Row[]): "all" | "some" | "none" {
  if (selection.size === 0) return "none";
  return rows.length > 0 && rows.every((row) => selection.has(row.id)) ? "all" : "some";
}

/** The selection with all shown rows, or without them if all were selected. */
export function allToggled(selection: Selection, rows: readonly Row[]): Selection {
  const next = new Map(selection);
  const isAll = extentOf(selection, rows) === "all";
  for (const row of rows) {
    if (isAll) next.delete(row.id);
    else next.set(row.id, row);
  }
  return next;
}

/** The selection without these jobs. */
export function without(selection: Selection, ids: ReadonlySet<string>): Selection {
  return new Map([...selection].filter(([id]) => !ids.has(id)));
}

/** The selected jobs, in their current state if they are shown. */
export function current(selection: Selection, rows: readonly Row[]): Row[] {
  const shown = new Map(rows.filter(({ id }) => selection.has(id)).map((row) => [row.id, row]));
  return [...selection.values()].map((row) => shown.get(row.id) ?? row);
}
