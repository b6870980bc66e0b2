// How long a poll waits before it asks again.

import type { Problem } from "./problem.ts";

const SHARE = 4; // a poll is busy for at most a fifth of the time, however slow its answers are
const LONGEST_MS = 10_000;

export interface PollState {
  readonly everyMs: number;
  readonly tookMs: number;
  readonly failures: number;
  readonly problem: Problem | undefined;
}

/** Milliseconds; null if asking again would change nothing. */
export function pollDelayMs({ everyMs, tookMs, failures, problem }: PollState): number | null {
  if (problem === undefined) return Number.isFinite(everyMs) ? Math.max(everyMs, SHARE * tookMs) : null;
  if (problem.status === 401) return null; // asked again after a sign-in
  if (problem.status === 404 && !Number.isFinite(everyMs)) return null;
  if (problem.isAway || problem.status === 429) return Math.min(LONGEST_MS, 500 * 2 ** Math.min(failures, 8));
  return LONGEST_MS;
}
