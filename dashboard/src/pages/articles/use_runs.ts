// The jobs of a chart or a table in an article, kept up to date.

import { useMemo } from "preact/hooks";
import { usePolled } from "../../api/polled.ts";
import type { Problem } from "../../api/problem.ts";
import type { ArticleRuns, Job, Listed } from "../../api/types.ts";
import { pathWith } from "../../query.ts";
import { useJobs } from "../compare/use_jobs.ts";

export interface BlockJobs {
  /** Undefined until they have come. */
  readonly jobs: readonly Job[] | undefined;
  /** Ids that no job has. */
  readonly gone: readonly string[];
  readonly problem: Problem | undefined;
}

const NO_IDS: readonly string[] = [];
const EVERY_S = 10;

export function useBlockJobs(runs: ArticleRuns): BlockJobs {
  const named = useJobs(runs.jobs ?? NO_IDS, "");
  const list = usePolled<Listed<Job>>(listPath(runs), { every_s: EVERY_S });
  return useMemo(() => {
    if (runs.jobs === null) return { jobs: list.data?.items, gone: NO_IDS, problem: list.problem };
    const found = named.ids.flatMap((id) => named.jobs.get(id) ?? []);
    return {
      jobs: named.isComplete ? found : undefined,
      gone: named.ids.filter((id) => named.gone.has(id)),
      problem: named.problem,
    };
  }, [runs, named, list.data, list.problem]);
}

/** The list of jobs that a study or a filter stands for; null if the jobs are named. */
export function listPath({ study, filter, limit }: ArticleRuns): string | null {
  if (study !== null) return pathWith("/v1/jobs", { study, limit });
  if (filter === null) return null;
  const query = new URLSearchParams(filter);
  query.set("limit", String(limit));
  return `/v1/jobs?${query}`;
}

/** A sentence about the jobs of a figure. */
export function captionOf(runs: ArticleRuns, { jobs, gone }: BlockJobs): string {
  if (jobs === undefined) return "Loading…";
  const count = `${jobs.length} ${jobs.length === 1 ? "job" : "jobs"}`;
  if (runs.jobs !== null) return gone.length === 0 ? `${count}.` : `${count}. There is no job ${gone.join(", ")}.`;
  const most = jobs.length === runs.limit ? `, the newest ${runs.limit}` : "";
  return `${count}: ${runs.study !== null ? `study ${runs.study}` : `those with ${runs.filter}`}${most}.`;
}
