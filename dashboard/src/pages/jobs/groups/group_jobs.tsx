// The jobs of an open group, as in the list of all jobs.

import { useCallback, useEffect, useMemo } from "preact/hooks";
import { number } from "../../../format.ts";
import { ProblemNotice, Waiting } from "../../../parts/notice.tsx";
import { filteredBy } from "../asked.ts";
import { Cards } from "../cards.tsx";
import { columnsOf, commonMetric } from "../columns.ts";
import { allToggled } from "../selection.ts";
import { Table } from "../table.tsx";
import { choice, choose, isNarrow } from "../use_columns.ts";
import { useCurves, useListing } from "../use_listing.ts";
import type { View } from "../view.ts";
import type { Shared } from "./group.tsx";
import styles from "./groups.module.css";

const MOST_CURVES = 200; // jobs in one request for curves

export function GroupJobs({
  id,
  name,
  own: ownView,
  view,
  news,
  marks,
  onRows,
  onChange,
}: Shared & { id: string; name: string; own: View }) {
  const own = useMemo(() => ownView, [view, id]);
  const { listing, isOld, problem } = useListing(own, { hasStream: false });
  const curves = useCurves(view.metric);
  const list = listing.list.value;
  const rows = list?.rows ?? NO_ROWS;
  useEffect(() => news.follow(listing), [news, listing]);
  useEffect(() => curves.want(rows.slice(0, MOST_CURVES)), [curves, rows]);
  useEffect(() => onRows(id, rows), [onRows, id, rows]);
  useEffect(() => () => onRows(id, NO_ROWS), [onRows, id]);
  const metric = commonMetric(rows, view.metric);
  const { ids } = choice.value;
  const columns = useMemo(() => columnsOf(ids, metric), [ids, metric]);
  const onLabel = useCallback(
    (label: string) => onChange({ labels: [...new Set([...view.labels, label])] }),
    [onChange, view.labels],
  );
  const ownMarks = useMemo(
    () => ({ ...marks, toggleAll: () => marks.select(allToggled(marks.selection, rows)) }),
    [marks, rows],
  );
  if (list === null) return <Waiting problem={problem} subject={`the jobs of ${name}`} />;
  if (rows.length === 0) return <p class={styles["message"]}>No job matches the filters.</p>;
  const shared = {
    rows,
    inView: { first: 0, end: rows.length },
    metric: view.metric,
    curves: curves.byJob.value,
    marks: ownMarks,
    onLabel,
  };
  return (
    <section aria-label={`Jobs of ${name}`} aria-busy={isOld}>
      <ProblemNotice problem={problem} />
      <div class={styles["jobs"]}>
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
      {list.nextCursor !== null && (
        <p class={styles["message"]}>
          {number(rows.length)} jobs, and more{" "}
          <button type="button" disabled={listing.tail.value === "loading"} onClick={() => void listing.more()}>
            Load more
          </button>
        </p>
      )}
    </section>
  );
}

const NO_ROWS: readonly never[] = [];
