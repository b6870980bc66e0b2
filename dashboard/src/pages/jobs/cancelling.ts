// Cancels several jobs, one after the other, and reports the outcome of each.

import { Problem } from "../../api/problem.ts";
import type { Row } from "./row.ts";

export interface Outcome {
  readonly row: Row;
  /** Why the request was refused; null if it was accepted. */
  readonly refusal: string | null;
}

export type Cancel = (id: string) => Promise<unknown>;

/** One outcome for each job. `onOutcome` gets the outcomes so far after each. */
export async function cancelled(
  rows: readonly Row[],
  cancel: Cancel,
  onOutcome: (outcomes: readonly Outcome[]) => void,
): Promise<readonly Outcome[]> {
  const outcomes: Outcome[] = [];
  for (const row of rows) {
    outcomes.push({ row, refusal: await refusalOf(row, cancel) });
    onOutcome([...outcomes]);
  }
  return outcomes;
}

async function refusalOf(row: Row, cancel: Cancel): Promise<string | null> {
  try {
    await cancel(row.id);
    return null;
  } catch (error) {
    if (!(error instanceof Problem)) return String(error);
    return error.detail === "" ? error.title : `${error.title}: ${error.detail}`;
  }
}
