// How long a poll rests before it asks again.

import type { Problem } from "./problem.ts";

const SHARE = 4; // a poll is at work a fifth of the time at most, whatever its answer costs
const LONGEST_MS = 10_000;

export interface PollState {
  readonly everyMs: number;
  readonly tookMs: number;
  readonly failures: number;
  readonly problem: Problem | undefined;
}

/** Milliseconds; null where asking again would change nothing. */
export function pollDelayMs({ everyMs, tookMs, failures, problem }: PollState): number | null {
  if (problem === undefined) return Number.isFinite(everyMs) ? Math.max(everyMs, SHARE * tookMs) : null;
  if (problem.status === 401) return null; // asked again when somebody has signed in
  if (problem.isAway || problem.status === 429) return Math.min(LONGEST_MS, 500 * 2 ** Math.min(failures, 8));
  return LONGEST_MS;
}
