// The repeats that stalled: what shows it, and the figures of their cells with them and without them.

import type { CellReport, Outlier, StudyReport } from "../../api/types.ts";
import { duration, short } from "../../format.ts";
import { Panel } from "../../parts/panel.tsx";
import { intervalText, othersKey } from "./figures.ts";
import styles from "./outliers.module.css";
import { outliersParam } from "./view.ts";

export function Outliers({ report }: { report: StudyReport }) {
  const outliers = report.outliers;
  if (outliers.length === 0) return null;
  return (
    <Panel title="Runs that stalled" tools={<Keep />} flush>
      <div class={styles["scroll"]} tabIndex={0} role="region" aria-label="Table of runs that stalled">
        <table class={styles["table"]}>
          <thead>
            <tr>
              <th scope="col">Job</th>
              <th scope="col">Cell</th>
              <th scope="col">What shows it</th>
              <th scope="col" class="figure">
                Time with it
              </th>
              <th scope="col" class="figure">
                Time without
              </th>
            </tr>
          </thead>
          <tbody>
            {outliers.map((outlier) => (
              <Row key={outlier.job_id} outlier={outlier} cell={report.cells[outlier.cell] as CellReport} />
            ))}
          </tbody>
        </table>
      </div>
      <p class={styles["note"]}>
        A run that took {outliers[0]?.rule}. Times, throughputs and slot times on this page{" "}
        {report.outliers_set_aside ? "leave these runs out" : "count these runs"}; accuracies and losses always count
        all runs.
      </p>
    </Panel>
  );
}

function Row({ outlier, cell }: { outlier: Outlier; cell: CellReport }) {
  return (
    <tr>
      <td>
        <a class="mono" href={`/jobs/${outlier.job_id}`}>
          {outlier.job_id}
        </a>
      </td>
      <td>{othersKey(cell) || "all"}</td>
      <td>{evidence(outlier)}</td>
      <td class="figure">{intervalText(cell.with_outliers?.wall_s ?? null, duration)}</td>
      <td class="figure">{intervalText(cell.without_outliers?.wall_s ?? null, duration)}</td>
    </tr>
  );
}

function evidence({ figure, value, median }: Outlier): string {
  return figure === "epoch_s"
    ? `${duration(value)} for an epoch, where the median is ${duration(median)}`
    : `${short(value)} samples/s, where the median is ${short(median)}`;
}

function Keep() {
  return (
    <label class={styles["keep"]}>
      <input
        type="checkbox"
        checked={outliersParam.value === "keep"}
        onChange={({ currentTarget }) => outliersParam.set(currentTarget.checked ? "keep" : "")}
      />
      Count these runs
    </label>
  );
}
