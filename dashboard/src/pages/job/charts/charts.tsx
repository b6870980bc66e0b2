// The curves of a job and what its slots did meanwhile, under one axis.

import type { Job } from "../../../api/types.ts";

export function JobCharts({ job }: { job: Job }) {
  return <p>{job.id}</p>;
}
