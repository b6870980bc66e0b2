// The grid as a table: a row for each cell, with the figures of its repeats and its jobs.

import type { CellReport, Study, StudyReport } from "../../api/types.ts";
import { metricText } from "../../metrics.ts";
import { Figure } from "../../parts/figure.tsx";
import { Panel } from "../../parts/panel.tsx";
import { SortHead } from "../../parts/sort_head.tsx";
import { listOf } from "../../query.ts";
import { type Column, columnsOf, nextSort, shownMetrics, sortedBy, sortedCells } from "./cell_columns.ts";
import styles from "./cell_table.module.css";
import { type MetricKey, metricKeys, metricOf, othersKey } from "./figures.ts";
import { metricsParam, sortParam } from "./view.ts";

export function CellTable({ study, report }: { study: Study; report: StudyReport }) {
  const chosenMetrics = listOf(metricsParam.value);
  const columns = columnsOf(report, chosenMetrics);
  const hidden = metricKeys(report).filter((key) => !shownMetrics(report, chosenMetrics).includes(key));
  const sort = sortParam.value;
  return (
    <Panel title="Cells" flush tools={hidden.length > 0 && <MoreMetrics keys={hidden} chosen={chosenMetrics} />}>
      <div class={styles["scroll"]} tabIndex={0} role="region" aria-label="Table of cells">
        <table class={styles["table"]}>
          <thead>
            <tr>
              {columns.map((column) => (
                <SortHead
                  key={column.key}
                  label={column.label}
                  title={column.title}
                  sorted={sortedBy(sort, column.key)}
                  onSort={() => sortParam.set(nextSort(sort, column.key))}
                />
              ))}
              <th scope="col">Jobs</th>
            </tr>
          </thead>
          <tbody>
            {sortedCells(report, columns, sort).map(([cell, position]) => (
              <Row key={position} study={study} report={report} columns={columns} cell={cell} position={position} />
            ))}
          </tbody>
        </table>
      </div>
      <p class={styles["note"]}>
        Means of the repeats that succeeded
        {report.repeats > 1 ? ", ± half of the 95 % interval (Student's t); one repeat has no interval" : ""}. ★ is the
        best cell of a column.
        {report.outliers.length > 0 && " * One of its runs stalled."}
      </p>
    </Panel>
  );
}

/** Adds a column for a metric. */
function MoreMetrics({ keys, chosen }: { keys: readonly MetricKey[]; chosen: readonly string[] }) {
  return (
    <select
      aria-label="Add the column of a metric"
      value=""
      onChange={({ currentTarget: { value } }) => metricsParam.set([...chosen, value].join())}
    >
      <option value="">{keys.length} more metrics…</option>
      {keys.map(metricOf).map((name) => (
        <option key={name} value={name}>
          {metricText(name)}
        </option>
      ))}
    </select>
  );
}

interface RowProps {
  study: Study;
  report: StudyReport;
  columns: readonly Column[];
  cell: CellReport;
  position: number;
}

function Row({ study, report, columns, cell, position }: RowProps) {
  return (
    <tr>
      {columns.map(({ key, label, format, bestKey = key }) => {
        const isBest = report.cells.length > 1 && report.best[bestKey] === position;
        return (
          <td key={key} class={`figure ${styles["cell"]}`}>
            <Figure text={format(cell)} best={isBest ? `best ${label}` : null} />
          </td>
        );
      })}
      <td>
        <JobLinks study={study} cell={cell} position={position} />
      </td>
    </tr>
  );
}

/** Links to the jobs of a cell by repeat, with the status of those that did not succeed. */
function JobLinks({ study, cell, position }: { study: Study; cell: CellReport; position: number }) {
  const jobs = study.cells[position]?.jobs ?? [];
  return (
    <span class={styles["jobs"]}>
      {jobs.map(({ id, repeat, status, paused }) => (
        <a key={id} href={`/jobs/${id}`} title={id}>
          <span class="spoken">repeat </span>
          {repeat + 1}
          {status !== "succeeded" && ` ${paused ? "paused" : status}`}
          <span class="spoken"> of {othersKey(cell)}</span>
        </a>
      ))}
      {jobs.length > 1 && (
        <a href={`/compare?jobs=${jobs.map(({ id }) => id).join(",")}`}>
          compare<span class="spoken"> the repeats of {othersKey(cell)}</span>
        </a>
      )}
    </span>
  );
}
