// What the words of the api mean, in sentences: why an attempt ended and what to do then. Used by the parts of a job's page.

import type { Attempt, EndReason, Preemption } from "../../api/types.ts";
import { words } from "../../format.ts";

interface Meaning {
  readonly what: string;
  /** What a person can do about it; null where there is nothing to do. */
  readonly todo: string | null;
}

const END_REASONS: Record<EndReason, Meaning> = {
  completed: { what: "Every epoch is done.", todo: null },
  early_stopped: { what: "More epochs did not help.", todo: null },
  cancelled: { what: "Somebody asked for it.", todo: null },
  rank_failed: {
    what: "A rank died, more often than max_restarts allows.",
    todo: "The last lines of that rank say why. Where the system ended it for its memory, try a smaller batch.",
  },
  out_of_memory: {
    what: "The batch does not fit into the device's memory.",
    todo: "Try a smaller batch_size or half precision; a batch probe finds the largest batch that fits.",
  },
  stalled: {
    what: "No rank made a step for as long as stall_timeout_s.",
    todo: "See what the ranks printed last. Where single steps take that long, raise stall_timeout_s.",
  },
  time_limit: {
    what: "The attempt took longer than time_limit_s.",
    todo: "Raise time_limit_s, or train for fewer epochs.",
  },
  launch_failed: {
    what: "No rank came up.",
    todo: "The launcher's lines say how far it came; hora doctor looks into the hosts.",
  },
  host_lost: {
    what: "A host stopped answering, was cut off from the others, or was shut down.",
    todo: "The hosts' page shows which one is missing.",
  },
  lease_expired: {
    what: "Its supervisor died, stood still, or lost the database for too long.",
    todo: "See on the hosts' page whether the host is well, then submit it again.",
  },
  preempted: { what: "It made room for a job of higher priority, or on a host that is drained.", todo: null },
  paused: { what: "A person asked it to wait.", todo: null },
  bad_data: {
    what: "The data cannot be read, or does not fit the spec.",
    todo: "Correct the data or the fields below dataset, then submit it again.",
  },
  internal_error: {
    what: "The trainer failed in a way that another try would repeat.",
    todo: "Change what the error names, then submit it again.",
  },
};

export function meaningOf(reason: EndReason): Meaning {
  return END_REASONS[reason];
}

/** Why an attempt ended, in a word or two; that it did not. */
export function endOf(attempt: Attempt): string {
  return attempt.end_reason === null ? "live" : words(attempt.end_reason);
}

/** Why an attempt was asked to release its slots, to go on after a verb: to make room for job 0abc. */
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

/** What became of an attempt that was asked to release its slots: moved because host ha is drained. */
export function preemptionOf(preemption: Preemption): string {
  return `${preemption.kind === "job" ? "preempted" : "moved"} ${causeOf(preemption)}`;
}

/** A place in a queue as people say it: 1st, 2nd, 3rd, 11th. */
export function ordinal(position: number): string {
  const isTeen = position % 100 >= 10 && position % 100 <= 20;
  return `${position.toLocaleString("en")}${isTeen ? "th" : (["th", "st", "nd", "rd"][position % 10] ?? "th")}`;
}
