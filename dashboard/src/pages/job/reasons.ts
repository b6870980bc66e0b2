// Sentences for the end reasons and preemptions of the api: the cause and the remedy. Used by the parts of a job's page.

import type { Attempt, EndReason, Preemption } from "../../api/types.ts";
import { words } from "../../format.ts";

interface Explanation {
  readonly cause: string;
  /** What a person can do about it; null if there is nothing to do. */
  readonly remedy: string | null;
}

const END_REASONS: Record<EndReason, Explanation> = {
  completed: { cause: "Every epoch is done.", remedy: null },
  early_stopped: { cause: "The monitored metric stopped improving.", remedy: null },
  pruned: { cause: "Its search ended it early: other trials were better.", remedy: null },
  cancelled: { cause: "A person cancelled the job.", remedy: null },
  dependency: {
    cause: "A job that it was waiting for failed or was cancelled, so no attempt began.",
    remedy: "Submit that job again. Then submit this one again, after the new one.",
  },
  rank_failed: {
    cause: "A rank died more often than max_restarts allows.",
    remedy: "Read the last lines of that rank. If memory ran out, try a smaller batch.",
  },
  out_of_memory: {
    cause: "The batch does not fit into the device's memory.",
    remedy: "Try a smaller batch_size or half precision. A batch probe finds the largest batch that fits.",
  },
  stalled: {
    cause: "No rank made a step for as long as stall_timeout_s.",
    remedy: "Read what the ranks printed last. If one step really takes that long, raise stall_timeout_s.",
  },
  time_limit: {
    cause: "The attempt took longer than time_limit_s.",
    remedy: "Raise time_limit_s, or train for fewer epochs.",
  },
  launch_failed: {
    cause: "No rank started.",
    remedy: "Read the launcher's last lines. hora doctor checks the hosts.",
  },
  host_lost: {
    cause: "A host stopped answering, was cut off from the others, or was shut down.",
    remedy: "Look for the missing host on the page of the hosts.",
  },
  no_device: {
    cause: "A rank could not use the GPU that it was given.",
    remedy: "Read the error of the attempt. hora doctor on that host says what it can use.",
  },
  lease_expired: {
    cause: "Its supervisor died, was stopped, or lost the database for too long.",
    remedy: "Check the host on the page of the hosts. Then submit the job again.",
  },
  no_space: {
    cause: "A folder of its host was full, or could not be written.",
    remedy: "Make room on the host. The page of the hosts names the folder.",
  },
  no_store: {
    cause: "The store could not be reached, and only there is what the attempt starts from.",
    remedy: "hora doctor says what is wrong with the store. Then submit the job again.",
  },
  preempted: {
    cause:
      "It released its slots for a job of higher priority, because its host is drained, or because Slurm takes its nodes back.",
    remedy: null,
  },
  paused: { cause: "A person paused the job, or nobody used its slots.", remedy: null },
  idle: {
    cause: "Nobody used its slots for as long as idle.for_s, and idle.action is stop.",
    remedy: "If it needs longer without its slots, raise idle.for_s.",
  },
  bad_data: {
    cause: "The data cannot be read, or does not fit the spec.",
    remedy: "Correct the data or the fields below dataset. Then submit the job again.",
  },
  script_failed: {
    cause: "The script ended with an error. Another attempt would do the same.",
    remedy: "Correct what its last lines name. Then send the code again.",
  },
  internal_error: {
    cause: "The trainer failed. Another attempt would fail in the same way.",
    remedy: "Change what the error names. Then submit the job again.",
  },
};

export function explanationOf(reason: EndReason): Explanation {
  return END_REASONS[reason];
}

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
