// A search on the page of its study: the best trial, the objective over the trials, importances, and all trials.

import type { StudyReport, Trial } from "../../api/types.ts";
import { PointChart } from "../../charts/point_chart.tsx";
import { number, percent } from "../../format.ts";
import { Figure } from "../../parts/figure.tsx";
import { Panel } from "../../parts/panel.tsx";
import { Shares } from "../../parts/shares.tsx";
import { SortHead } from "../../parts/sort_head.tsx";
import { nextSort, sortedBy } from "./cell_columns.ts";
import tableStyles from "./cell_table.module.css";
import { estimateText, fieldLabel, othersKey } from "./figures.ts";
import page from "./page.module.css";
import styles from "./search.module.css";
import { importancesOf, objectiveLabel, sortedTrials, trialColumns, trialLines } from "./trials.ts";
import { sortParam } from "./view.ts";

export function Search({ report }: { report: StudyReport }) {
  const lines = trialLines(report);
  return (
    <>
      {lines.length > 0 && (
        <div class={page["charts"]}>
          <Panel title={`${objectiveLabel(report)} of each trial`}>
            <Best report={report} />
            <PointChart
              title={`${objectiveLabel(report)} of each trial`}
              xName="trial"
              yName={objectiveLabel(report)}
              lines={lines}
              isJoined={false}
              isFromZero={false}
              format={(value) => number(value, 3)}
              formatX={(value) => String(Math.round(value))}
              formatEstimate={(estimate) => estimateText(estimate, number)}
            />
          </Panel>
          <Importances report={report} />
        </div>
      )}
      <Trials report={report} />
    </>
  );
}

function Best({ report }: { report: StudyReport }) {
  const best = report.trials?.find((trial) => trial.number === report.best["goal"]);
  if (best === undefined) return null;
  return (
    <p class={styles["best"]}>
      Best: <a href={`/jobs/${best.job_id}`}>trial {best.number}</a> with {othersKey(best)}.{" "}
      <a href={`/new?clone=${best.job_id}`}>Train it longer</a>
    </p>
  );
}

function Importances({ report }: { report: StudyReport }) {
  const shares = importancesOf(report);
  return (
    <Panel title="Importances">
      {shares.length === 0 ? (
        <p class="muted">Which field matters is known after eight trials with different results.</p>
      ) : (
        <Shares rows={shares.map(([field, share]) => ({ label: fieldLabel(field), share, text: percent(share) }))} />
      )}
    </Panel>
  );
}

function Trials({ report }: { report: StudyReport }) {
  const columns = trialColumns(report);
  const sort = sortParam.value;
  return (
    <Panel title="Trials" flush>
      <div class={tableStyles["scroll"]} tabIndex={0} role="region" aria-label="Table of trials">
        <table class={tableStyles["table"]}>
          <thead>
            <tr>
              {columns.map(({ key, label }) => (
                <SortHead
                  key={key}
                  label={label}
                  sorted={sortedBy(sort, key)}
                  onSort={() => sortParam.set(nextSort(sort, key))}
                />
              ))}
              <th scope="col">Job</th>
            </tr>
          </thead>
          <tbody>
            {sortedTrials(report, sort).map((trial) => (
              <Row key={trial.number} trial={trial} report={report} />
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}

function Row({ trial, report }: { trial: Trial; report: StudyReport }) {
  const isBest = trial.number === report.best["goal"];
  return (
    <tr>
      {trialColumns(report).map(({ key, format }) => (
        <td key={key} class={`figure ${tableStyles["cell"]}`}>
          <Figure text={format(trial)} best={isBest && key === "objective" ? "best trial" : null} />
        </td>
      ))}
      <td>
        <a class="mono" href={`/jobs/${trial.job_id}`}>
          {trial.job_id}
        </a>
      </td>
    </tr>
  );
}
