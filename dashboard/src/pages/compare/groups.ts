// Groups of runs with one value of a field, such as the repeats of a study's cell. A group has one colour. Pure.

import type { Job } from "../../api/types.ts";
import { runDash } from "../../charts/palette.ts";
import { byValue } from "../../order.ts";
import { type Field, fieldOf, type Value } from "./fields.ts";
import { colourOf, type HandColours, type Run } from "./runs.ts";

export interface Group {
  /** Safe in a list in the address. No id of a run is like it. */
  readonly key: string;
  readonly name: string;
  readonly runs: readonly Run[];
  readonly colour: string;
  readonly dash: readonly number[];
  /** All of its runs are hidden. */
  readonly isHidden: boolean;
}

/** The word in the address for groups by the cell of a study. */
export const CELL = "cell";

/** The fields to group by: the cells of a study, labels, and settings that differ. `now` is always among them. */
export function groupings(
  jobs: readonly Job[],
  settings: readonly Field[],
  now: string,
): [key: string, text: string][] {
  const cell: [string, string][] = jobs.some(({ study_cell }) => study_cell != null) ? [[CELL, "study cell"]] : [];
  const isLabel = ({ key }: Field): boolean => key.startsWith("labels.");
  const fields = [...settings.filter(isLabel), ...settings.filter((field) => !isLabel(field))];
  const all = [...cell, ...fields.map(({ key, label }): [string, string] => [key, label])];
  return now === "" || all.some(([key]) => key === now) ? all : [...all, [now, fieldOf(now).label]];
}

/** The runs by groups, in the order of their values. Each run gets the colour of its group. */
export function grouped(
  runs: readonly Run[],
  by: string,
  settings: readonly Field[],
  colours?: HandColours,
): readonly Group[] {
  if (by === "") return [];
  const field = fieldOf(by);
  const read = by === CELL ? cellOf : field.valueIn;
  const byText = new Map<string, { value: Value; runs: Run[] }>();
  for (const run of runs) {
    const value = read(run.job);
    const text = JSON.stringify(value);
    const group = byText.get(text) ?? { value, runs: [] };
    byText.set(text, group);
    group.runs.push(run);
  }
  const sorted = [...byText].sort(([, a], [, b]) => byValue(a.value, b.value, false));
  const names =
    by === CELL
      ? cellNames(
          sorted.map(([, group]) => group.runs),
          settings,
        )
      : [];
  return sorted.map(([text, group], place) => {
    const key = `g=${encodeURIComponent(text)}`;
    const [colour, dash] = [colourOf(key, place, colours), runDash(place)];
    return {
      key,
      name:
        group.value === null ? `no ${by === CELL ? "study" : field.label}` : names[place] || field.format(group.value),
      runs: group.runs.map((run) => ({ ...run, group: key, colour, dash })),
      colour,
      dash,
      isHidden: group.runs.every(({ isHidden }) => isHidden),
    };
  });
}

function cellOf({ study, study_cell }: Job): string | null {
  return study_cell == null ? null : `${study} ${study_cell}`;
}

/** What sets each cell apart: the settings that differ between the cells, and are the same in all runs of a cell. */
function cellNames(cells: readonly (readonly Run[])[], settings: readonly Field[]): string[] {
  const isOfCells = ({ key, valueIn }: Field): boolean =>
    !key.startsWith("plan.") &&
    cells.every(([first, ...runs]) => runs.every(({ job }) => valueIn(job) === valueIn((first as Run).job)));
  const own = settings.filter(isOfCells);
  return cells.map(
    ([first]) =>
      own.map(({ label, format, valueIn }) => `${label} ${format(valueIn((first as Run).job))}`).join(", ") ||
      `cell ${((first as Run).job.study_cell ?? 0) + 1}`,
  );
}

/** The runs in their own order, with the colours of their groups. */
export function coloured(runs: readonly Run[], groups: readonly Group[]): readonly Run[] {
  if (groups.length === 0) return runs;
  const byId = new Map(groups.flatMap((group) => group.runs.map((run) => [run.id, run] as const)));
  return runs.map((run) => byId.get(run.id) ?? run);
}

/** The hidden ids after a click on a group: all of its runs shown, or all hidden. */
export function withToggled(hidden: readonly string[], { runs, isHidden }: Group): string[] {
  const ids = new Set(runs.map(({ id }) => id));
  const others = hidden.filter((id) => !ids.has(id));
  return isHidden ? others : [...others, ...ids];
}
