// The compared runs, in the order of the address, which sets their numbers, colours and dashes.

import type { Job } from "../../api/types.ts";
import { HUES, runColour, runDash } from "../../charts/palette.ts";
import { type Brushes, isWithin } from "./brushes.ts";
import { compared, type Field } from "./fields.ts";

export const MOST_RUNS = 200;

export interface Run {
  readonly id: string;
  /** From 1, as people count. */
  readonly number: number;
  readonly job: Job;
  /** Its name, without the words that all names begin with. */
  readonly label: string;
  readonly colour: string;
  readonly dash: readonly number[];
  /** A person hid it, or it is not among the best runs that the page shows. */
  readonly isHidden: boolean;
  /** The key of its group, whose colour and dash it has; null without groups. */
  readonly group: string | null;
}

/** The best `count` runs by a figure. */
export interface Best {
  readonly count: number;
  readonly key: string;
}

export interface RunChoice {
  readonly hidden: ReadonlySet<string>;
  readonly best: Best | null;
  /** The places of the runs, which set their numbers and colours; by default those among the ids. */
  readonly places?: ReadonlyMap<string, number>;
  /** Colours that a person chose, by id. */
  readonly colours?: HandColours;
}

/** Places in the palette, as the address has them, by the id of a run or the key of a group. */
export type HandColours = ReadonlyMap<string, string>;

/** The colour that a person chose, or that of the place. */
export function colourOf(key: string, place: number, colours: HandColours | undefined): string {
  const chosen = Number(colours?.get(key) ?? Number.NaN);
  return runColour(chosen in HUES ? chosen : place);
}

/** The runs whose jobs are loaded. `fields` can rank them. */
export function runsOf(
  ids: readonly string[],
  jobs: ReadonlyMap<string, Job>,
  fields: readonly Field[],
  { hidden, best, places, colours }: RunChoice,
): Run[] {
  const loaded = ids.flatMap((id, index) => {
    const job = jobs.get(id);
    return job === undefined ? [] : [{ id, place: places?.get(id) ?? index, job }];
  });
  const labels = shortNames(loaded.map(({ job }) => job.name));
  const bestRunIds =
    best === null
      ? null
      : bestIds(
          loaded.map(({ job }) => job),
          fields,
          best,
        );
  return loaded.map(({ id, place, job }, index) => ({
    id,
    job,
    number: place + 1,
    label: labels[index] as string,
    colour: colourOf(id, place, colours),
    dash: runDash(place),
    isHidden: hidden.has(id) || (bestRunIds !== null && !bestRunIds.has(id)),
    group: null,
  }));
}

/** The ids of the runs outside of a range that was drawn on an axis. */
export function fadedIds(runs: readonly Run[], fields: readonly Field[], brushes: Brushes): ReadonlySet<string> {
  if (brushes.size === 0) return NO_IDS;
  return new Set(runs.filter(({ job }) => !isWithin(job, fields, brushes)).map(({ id }) => id));
}

const NO_IDS: ReadonlySet<string> = new Set();

/** Names without the words that all begin with, so that their differences come first. */
export function shortNames(names: readonly string[]): string[] {
  const split = names.map((name) => name.split(" "));
  const [first, ...others] = split;
  if (first === undefined || others.length === 0) return [...names];
  let same = 0;
  while (same < first.length && others.every((words) => words[same] === first[same])) same += 1;
  // A number alone says little: keep the word before it.
  if (same > 0 && split.some((words) => /^[\d.]/.test(words[same] ?? ""))) same -= 1;
  return split.map((words, index) => words.slice(same).join(" ") || (names[index] as string));
}

function bestIds(jobs: readonly Job[], fields: readonly Field[], { count, key }: Best): ReadonlySet<string> | null {
  const field = fields.find((each) => each.key === key);
  if (field?.better === undefined) return null;
  const ranked = jobs.filter((job) => field.valueIn(job) !== null).sort(compared(field, field.better === "more"));
  return new Set(ranked.slice(0, count).map(({ id }) => id));
}

/** Reads "5:val_accuracy" from the address; null if it is not of this form. */
export function parseBest(text: string): Best | null {
  const [count, key] = text.split(/:(.*)/s);
  const wanted = Number(count);
  return Number.isInteger(wanted) && wanted > 0 && key ? { count: wanted, key } : null;
}

/** A list with an item added, or removed if it was there. */
export function toggled(items: readonly string[], item: string): string[] {
  return items.includes(item) ? items.filter((each) => each !== item) : [...items, item];
}
