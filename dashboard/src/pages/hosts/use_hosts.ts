// All hosts, read page by page, and the names of their jobs.

import { useRef } from "preact/hooks";
import type { Problem } from "../../api/client.ts";
import { usePolled } from "../../api/polled.ts";
import type { Host, Job, Listed } from "../../api/types.ts";
import { pathWith } from "../../query.ts";

const PAGE = 500; // hosts, the most that the api gives at once
const SELDOM = { every_s: 5 };
const JOBS = 100; // of some kilobytes each

export interface Hosts {
  /** Undefined before the first answer. */
  readonly hosts: readonly Host[] | undefined;
  /** Whether there are more than these. */
  readonly hasMore: boolean;
  readonly problem: Problem | undefined;
  readonly refresh: () => void;
}

/** The first 2,000 hosts: four pages, each after the cursor of the previous one. */
export function useHosts(): Hosts {
  const first = usePolled<Listed<Host>>(pathWith("/v1/hosts", { limit: PAGE }));
  const second = usePolled<Listed<Host>>(pathAfter(first.data), SELDOM);
  const third = usePolled<Listed<Host>>(pathAfter(second.data), SELDOM);
  const fourth = usePolled<Listed<Host>>(pathAfter(third.data), SELDOM);
  const pages = [first, second, third, fourth];
  return {
    hosts: first.data === undefined ? undefined : pages.flatMap(({ data }) => data?.items ?? []),
    hasMore: (fourth.data?.next_cursor ?? null) !== null,
    problem: pages.find(({ problem }) => problem !== undefined)?.problem,
    refresh: () => {
      for (const page of pages) page.refresh();
    },
  };
}

function pathAfter(page: Listed<Host> | undefined): string | null {
  const cursor = page?.next_cursor ?? null;
  return cursor === null ? null : pathWith("/v1/hosts", { limit: PAGE, cursor });
}

/** The known names of the jobs that hold slots. Polls while a name is unknown. */
export function useJobNames(hosts: readonly Host[]): ReadonlyMap<string, string> {
  const names = useRef(new Map<string, string>());
  const isUnknown = (id: string | null): boolean => id !== null && !names.current.has(id);
  const hasUnknown = hosts.some(
    ({ slots, kept_for }) => isUnknown(kept_for) || slots.some(({ job_id }) => isUnknown(job_id)),
  );
  const path = pathWith("/v1/jobs", { status: ["queued", "launching", "running"], limit: JOBS });
  const { data } = usePolled<Listed<Job>>(hasUnknown ? path : null, { every_s: 10 });
  for (const { id, name } of data?.items ?? []) names.current.set(id, name);
  return names.current;
}
