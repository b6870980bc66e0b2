// The loaded jobs as a table or as cards, with a footer: the number of jobs, or the selection.

import { useCallback, useEffect, useMemo } from "preact/hooks";
import { usePolled } from "../../api/polled.ts";
import type { Problem } from "../../api/problem.ts";
import type { JobCount } from "../../api/types.ts";
import { number } from "../../format.ts";
import { keepListed } from "../../listed.ts";
import { pathWith } from "../../query.ts";
import type { Work } from "./acting.ts";
import { AllMatching } from "./all_matching.tsx";
import { AllShown } from "./all_shown.tsx";
import { filteredBy } from "./asked.ts";
import { CARD_PX, Cards } from "./cards.tsx";
import { columnsOf, commonMetric } from "./columns.ts";
import type { Curves } from "./curves.ts";
import styles from "./job_list.module.css";
import type { JobList } from "./list.ts";
import type { Listing } from "./listing.ts";
import { RowMenu } from "./row_menu.tsx";
import { Selected } from "./selected.tsx";
import { HEADER_PX, Table } from "./table.tsx";
import { choice, choose, isNarrow, row_px as rowOfTable_px } from "./use_columns.ts";
import { useKeys } from "./use_keys.ts";
import type { Marks } from "./use_marks.ts";
import { useScroller } from "./use_scroller.ts";
import { filtersOf, NEWEST_FIRST, type View } from "./view.ts";

interface Props {
  listing: Listing;
  list: JobList;
  isOld: boolean;
  view: View;
  curves: Curves;
  marks: Marks;
  onChange: (change: Partial<View>) => void;
  onWork: (work: Work) => void;
}

export function JobListView({ listing, list, isOld, view, curves, marks, onChange, onWork }: Props) {
  const { rows } = list;
  const row_px = isNarrow.value ? CARD_PX : rowOfTable_px.value;
  const { ref, inView } = useScroller(listing, curves, rows, row_px);
  useKeys(rows, marks, { scroller: ref, row_px, header_px: isNarrow.value ? 0 : HEADER_PX });
  useEffect(() => keepListed(rows.map(({ id }) => id)), [rows]);
  const { ids } = choice.value;
  const metric = commonMetric(rows, view.metric);
  const columns = useMemo(() => columnsOf(ids, metric), [ids, metric]);
  const onLabel = useCallback(
    (label: string) => onChange({ labels: [...new Set([...view.labels, label])] }),
    [onChange, view.labels],
  );
  const shared = { rows, inView, metric: view.metric, curves: curves.byJob.value, marks, onLabel };
  return (
    <section class={styles["panel"]} aria-label="Jobs" aria-busy={isOld}>
      <NewJobs
        count={listing.newCount.value}
        isNewestFirst={view.order === NEWEST_FIRST}
        onShow={() => {
          if (view.order !== NEWEST_FIRST) onChange({ order: NEWEST_FIRST });
          ref.current?.scrollTo({ top: 0 });
        }}
      />
      <div class={`${styles["scroller"]} ${isOld ? styles["old"] : ""}`} ref={ref}>
        {isNarrow.value ? (
          <Cards {...shared} />
        ) : (
          <Table
            {...shared}
            total={list.nextCursor === null ? rows.length : null}
            columns={columns}
            choice={choice.value}
            onChoose={choose}
            order={view.order}
            onOrder={(order) => onChange({ order })}
            onFilter={(field) => onChange(filteredBy(view, field))}
          />
        )}
      </div>
      <RowMenu rows={rows} view={view} marks={marks} onWork={onWork} />
      <footer class={styles["footer"]}>
        {marks.selection.size > 0 ? (
          <Selected rows={rows} view={view} marks={marks} onWork={onWork}>
            {list.nextCursor !== null && marks.selection.size === rows.length && (
              <AllMatching view={view} onSelect={marks.select} />
            )}
          </Selected>
        ) : (
          <>
            <Extent view={view} list={list} tail={listing.tail.value} onMore={() => void listing.more()} />
            <AllShown view={view} />
          </>
        )}
        <span class={styles["keys"]} aria-hidden="true">
          <kbd>j</kbd> <kbd>k</kbd> move · <kbd>x</kbd> select · <kbd>Enter</kbd> open · <kbd>/</kbd> search
        </span>
      </footer>
    </section>
  );
}

function NewJobs({ count, isNewestFirst, onShow }: { count: number; isNewestFirst: boolean; onShow: () => void }) {
  const jobs = count === 1 ? "1 new job" : `${number(count)} new jobs`;
  return (
    <div class={styles["news"]} aria-live="polite">
      {count > 0 && (
        <button type="button" class="primary" onClick={onShow}>
          {isNewestFirst ? `↑ ${jobs}` : `${jobs}: show newest first`}
        </button>
      )}
    </div>
  );
}

interface ExtentProps extends Pick<Props, "view" | "list"> {
  tail: "idle" | "loading" | Problem;
  onMore: () => void;
}

/** The number of jobs; if there are more than are loaded, both numbers. */
function Extent({ view, list, tail, onMore }: ExtentProps) {
  const count = list.rows.length;
  const all = usePolled<JobCount>(list.nextCursor && pathWith("/v1/jobs/count", filtersOf(view)), { every_s: 60 }).data;
  if (list.nextCursor === null) return <span>{count === 1 ? "1 job" : `${number(count)} jobs`}</span>;
  const jobs = all === undefined ? "" : ` of ${all.more ? "more than " : ""}${number(Math.max(all.jobs, count))}`;
  if (typeof tail === "string")
    return (
      <span>
        {number(count)}
        {jobs} jobs{tail === "loading" ? ", loading more…" : jobs === "" && ", and more"}
      </span>
    );
  return (
    <span>
      {number(count)}
      {jobs} jobs; could not load more: {tail.title}{" "}
      <button type="button" onClick={onMore}>
        Try again
      </button>
    </span>
  );
}
