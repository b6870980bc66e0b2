// The runs, or the means of their groups, in the order of a result: the best first. Pure.

import type { BarRow } from "../../charts/bar_rows.tsx";
import type { Field } from "./fields.ts";
import type { Group } from "./groups.ts";
import type { Run } from "./runs.ts";

/** A row for each group, or without groups for each run, if it has a number there. The best comes first. */
export function ranked(runs: readonly Run[], groups: readonly Group[], field: Field): BarRow[] {
  const rows = groups.length > 0 ? groups.flatMap((group) => ofGroup(runs, group, field)) : ofRuns(runs, field);
  return rows.sort((a, b) => (field.better === "less" ? a.value - b.value : b.value - a.value));
}

function ofRuns(runs: readonly Run[], field: Field): BarRow[] {
  return runs.flatMap(({ id, number, job, colour }) => {
    const value = field.valueIn(job);
    return isFigure(value) ? [{ key: id, name: `${number} ${job.name}`, colour, value }] : [];
  });
}

/** The mean over the runs of a group that have a number. */
function ofGroup(runs: readonly Run[], { key, name, colour }: Group, field: Field): BarRow[] {
  const values = runs.flatMap(({ group, job }) => (group === key ? field.valueIn(job) : null)).filter(isFigure);
  if (values.length === 0) return [];
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return [{ key, name: values.length > 1 ? `${name}, n ${values.length}` : name, colour, value: mean }];
}

function isFigure(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value);
}
