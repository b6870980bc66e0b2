// Acts on several jobs, one after the other, and reports the outcome of each.

import { Problem } from "../../api/problem.ts";
import type { Row } from "./row.ts";

export interface Outcome {
  readonly row: Row;
  /** Why the request was refused; null if it was accepted. */
  readonly refusal: string | null;
}

/** What is done, in words, and its outcomes so far. */
export interface Work {
  readonly doing: string;
  readonly done: string;
  readonly outcomes: readonly Outcome[];
  readonly isOver: boolean;
  /** Takes back what was accepted, if it can be taken back. */
  readonly undo?: (() => void) | undefined;
}

export interface Act {
  (row: Row): Promise<unknown>;
  readonly undo?: Act;
}

/** Fields of a job that are set, and labels; null removes one. */
export interface Changes {
  readonly starred?: boolean;
  readonly archived?: boolean;
  readonly project?: string;
  readonly labels?: Readonly<Record<string, string | null>>;
}

/** The changes that give a job its values from before these changes. */
export function takenBack(changes: Changes, { starred, archived, project, labels }: Row): Changes {
  const before: Changes = { starred, archived, project, labels: {} };
  const labelOf = (key: string): string | null =>
    labels.find((label) => label.startsWith(`${key}:`))?.slice(key.length + 1) ?? null;
  return Object.fromEntries(
    Object.keys(changes).map((name) => [
      name,
      name === "labels"
        ? Object.fromEntries(Object.keys(changes.labels ?? {}).map((key) => [key, labelOf(key)]))
        : before[name as keyof Changes],
    ]),
  );
}

/** One outcome for each job. `onOutcome` gets the outcomes so far after each. */
export async function actedOn(
  rows: readonly Row[],
  act: Act,
  onOutcome: (outcomes: readonly Outcome[]) => void,
): Promise<readonly Outcome[]> {
  const outcomes: Outcome[] = [];
  for (const row of rows) {
    outcomes.push({ row, refusal: await refusalOf(row, act) });
    onOutcome([...outcomes]);
  }
  return outcomes;
}

async function refusalOf(row: Row, act: Act): Promise<string | null> {
  try {
    await act(row);
    return null;
  } catch (error) {
    if (!(error instanceof Problem)) return String(error);
    const [first] = error.errors;
    const detail = first === undefined ? error.detail : `${first.field}: ${first.message}`;
    return detail === "" ? error.title : `${error.title}: ${detail}`;
  }
}

/** The change of a job's labels that adds a label, or removes those of its key. Null: the text is no label. */
export function labelChange(text: string, isAdded: boolean): Record<string, string | null> | null {
  const [, key = "", value] = /^([^:]+)(?::(.*))?$/s.exec(text.trim()) ?? [];
  if (key === "" || (isAdded && value === undefined)) return null;
  return { [key]: isAdded ? (value as string) : null };
}
