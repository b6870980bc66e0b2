// Jobs for tests, with the fields that a comparison reads.

import type { Job } from "../../api/types.ts";

interface Parts {
  name?: string;
  spec?: Record<string, unknown>;
  plan?: Record<string, unknown>;
  summary?: Record<string, unknown> | null;
  progress?: Record<string, unknown>;
  metrics?: Record<string, { last: number | null; best: number | null; best_epoch?: number | null }>;
  revision?: number;
}

export function job(
  id: string,
  { name = id, spec = {}, plan = {}, summary = null, progress = {}, metrics = {}, revision = 1 }: Parts = {},
): Job {
  return { id, name, spec: { name, ...spec }, plan, summary, progress, metrics, revision } as unknown as Job;
}
