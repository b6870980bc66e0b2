// The list of all jobs, with their progress and curves. Filter, sort, select, compare and cancel them here.

import { useState } from "preact/hooks";
import { ProblemNotice, Waiting } from "../../parts/notice.tsx";
import { stepParams } from "../../url.ts";
import type { Work } from "./acting.ts";
import { GroupedPage } from "./groups/grouped_page.tsx";
import { isGrouped } from "./groups/groups.ts";
import { JobListView } from "./job_list.tsx";
import { NoJobs } from "./no_jobs.tsx";
import styles from "./page.module.css";
import { Outcomes } from "./selected.tsx";
import { Toolbar } from "./toolbar.tsx";
import { useCurves, useListing } from "./use_listing.ts";
import { useMarks } from "./use_marks.ts";
import { useOpenedView } from "./use_saved_view.ts";
import { paramsOf, type View } from "./view.ts";

export function JobsPage() {
  const { view, problem } = useOpenedView();
  if (view === undefined) return <Waiting problem={problem} subject="jobs" />;
  return isGrouped(view) ? <GroupedPage view={view} onChange={change} /> : <FlatPage view={view} />;
}

function FlatPage({ view }: { view: View }) {
  const { listing, isOld, problem } = useListing(view);
  const curves = useCurves(view.metric);
  const list = listing.list.value;
  const rows = list?.rows ?? NO_ROWS;
  const marks = useMarks(rows);
  const [work, setWork] = useState<Work | null>(null);
  return (
    <div class={styles["page"]}>
      <h1 class="spoken">Jobs</h1>
      <Toolbar view={view} rows={rows} problem={problem} onChange={change} />
      {work !== null && <Outcomes {...work} onClose={() => setWork(null)} />}
      {list !== null && <ProblemNotice problem={problem} />}
      {list === null ? (
        <Waiting problem={problem} subject="jobs" />
      ) : rows.length === 0 && list.nextCursor === null && !isOld ? (
        <NoJobs view={view} onChange={change} />
      ) : (
        <JobListView
          listing={listing}
          list={list}
          isOld={isOld}
          view={view}
          curves={curves}
          marks={marks}
          onChange={change}
          onWork={setWork}
        />
      )}
    </div>
  );
}

const NO_ROWS: readonly never[] = [];

function change(by: Partial<View>): void {
  stepParams(paramsOf(by), Object.keys(by).join() === "search");
}
