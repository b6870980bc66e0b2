// The jobs before a job: those that it waits for. Used by the header of its page.

import type { Job } from "../../api/types.ts";

/** The ids of the jobs in `after`, and of the one from whose weights the job starts. */
export function jobsBefore(spec: Job["spec"]): string[] {
  const model = spec["model"] as { weights?: string } | null | undefined;
  const weights = model?.weights ?? "none";
  const after = (spec["after"] as string[] | undefined) ?? []; // jobs of older versions have none
  return [...new Set([...after, ...(weights.startsWith("job:") ? [weights.slice("job:".length)] : [])])];
}
