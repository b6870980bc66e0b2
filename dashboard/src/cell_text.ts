// The place of a job in its study, in words.

import type { Job } from "./api/types.ts";

/** gpus=2 dropout=0.1 · repeat 1: fields without what they are in. People count from 1. Empty for a job of no study. */
export function cellText(job: Pick<Job, "study" | "study_cell" | "study_repeat" | "study_values">): string {
  if (job.study === null) return "";
  const values = Object.entries(job.study_values ?? {}).map(
    ([field, value]) => `${field.replace(/^.*\./, "")}=${valueText(value)}`,
  );
  const cell = values.length > 0 ? values.join(" ") : `cell ${(job.study_cell ?? 0) + 1}`;
  return `${cell} · repeat ${(job.study_repeat ?? 0) + 1}`;
}

function valueText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
