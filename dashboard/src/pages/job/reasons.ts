// Words for the ends and preemptions of attempts. Used by the parts of a job's page.

import type { Attempt, Preemption } from "../../api/types.ts";
import { words } from "../../format.ts";

/** An error as a sentence. A name at its start keeps its case. */
export function sentence(text: string): string {
  return /^[a-z]+ /.test(text) ? text.charAt(0).toUpperCase() + text.slice(1) : text;
}

/** Why an attempt ended, in a word or two; "live" while it has not. */
export function endOf(attempt: Attempt): string {
  return attempt.end_reason === null ? "live" : words(attempt.end_reason);
}

/** The cause of a preemption, to follow a verb: to make room for job 0abc. */
export function causeOf({ kind, job, host }: Preemption): string {
  switch (kind) {
    case "job":
      return `to make room for job ${job}`;
    case "host_drained":
      return `because host ${host} is drained`;
    case "host_shutting_down":
      return `because host ${host} is shutting down`;
  }
}

/** A preemption in words: moved because host ha is drained. */
export function preemptionOf(preemption: Preemption): string {
  return `${preemption.kind === "job" ? "preempted" : "moved"} ${causeOf(preemption)}`;
}

/** A place in a queue: 1st, 2nd, 3rd, 11th. */
export function ordinal(position: number): string {
  const isTeen = position % 100 >= 10 && position % 100 <= 20;
  return `${position.toLocaleString("en")}${isTeen ? "th" : (["th", "st", "nd", "rd"][position % 10] ?? "th")}`;
}
