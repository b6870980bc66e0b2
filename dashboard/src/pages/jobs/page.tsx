// The list of all jobs, with their progress and curves. Filter, sort, select, compare and cancel them here.

import { useMemo, useState } from "preact/hooks";
import { ProblemNotice, Waiting } from "../../parts/notice.tsx";
import { query, stepParams } from "../../url.ts";
import type { Outcome } from "./cancelling.ts";
import { GroupedPage } from "./groups/grouped_page.tsx";
import { isByStudy } from "./groups/groups.ts";
import { JobListView } from "./job_list.tsx";
import { NoJobs } from "./no_jobs.tsx";
import styles from "./page.module.css";
import { Outcomes } from "./selected.tsx";
import { Toolbar } from "./toolbar.tsx";
import { useCurves, useListing } from "./use_listing.ts";
import { useMarks } from "./use_marks.ts";
import { isFiltered, paramsOf, type View, viewOf } from "./view.ts";

export function JobsPage() {
  const view = useMemo(() => viewOf(query.value), [query.value]);
  return isByStudy(view) ? <GroupedPage view={view} onChange={change} /> : <FlatPage view={view} />;
}

function FlatPage({ view }: { view: View }) {
  const { listing, isOld, problem } = useListing(view);
  const curves = useCurves(view.metric);
  const list = listing.list.value;
  const rows = list?.rows ?? NO_ROWS;
  const marks = useMarks(rows);
  const [cancelling, setCancelling] = useState<{ outcomes: readonly Outcome[]; isOver: boolean } | null>(null);
  return (
    <div class={styles["page"]}>
      <h1 class="spoken">Jobs</h1>
      <Toolbar view={view} rows={rows} onChange={change} />
      {cancelling !== null && <Outcomes {...cancelling} onClose={() => setCancelling(null)} />}
      {list !== null && <ProblemNotice problem={problem} />}
      {list === null ? (
        <Waiting problem={problem} subject="jobs" />
      ) : rows.length === 0 && list.nextCursor === null && !isOld ? (
        <NoJobs isFiltered={isFiltered(view)} onChange={change} />
      ) : (
        <JobListView
          listing={listing}
          list={list}
          isOld={isOld}
          view={view}
          curves={curves}
          marks={marks}
          onChange={change}
          onOutcomes={(outcomes, isOver) => setCancelling({ outcomes, isOver })}
        />
      )}
    </div>
  );
}

const NO_ROWS: readonly never[] = [];

function change(by: Partial<View>): void {
  stepParams(paramsOf(by), Object.keys(by).join() === "search");
}
