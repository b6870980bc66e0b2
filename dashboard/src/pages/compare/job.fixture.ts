// Jobs for tests, with the fields that a comparison reads.

import type { Job } from "../../api/types.ts";

interface Parts {
  name?: string;
  spec?: Record<string, unknown>;
  plan?: Record<string, unknown>;
  summary?: Record<string, unknown> | null;
  progress?: Record<string, unknown>;
  revision?: number;
}

export function job(
  id: string,
  { name = id, spec = {}, plan = {}, summary = null, progress = {}, revision = 1 }: Parts = {},
): Job {
  return { id, name, spec: { name, ...spec }, plan, summary, progress, revision } as unknown as Job;
}
