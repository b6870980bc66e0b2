// The metrics of a job as a table: the last and the best value of each, and which one counts.

import type { Job } from "../../../api/types.ts";
import { finder } from "../../../find.ts";
import { number } from "../../../format.ts";
import { goalMetricOf, goalOf, inOrder, isBetterLower, metricsOf } from "../../../metrics.ts";
import { Find } from "../../../parts/find.tsx";
import { Panel } from "../../../parts/panel.tsx";
import { param } from "../../../url.ts";
import { RowsTable } from "../rows_table.tsx";
import styles from "./results.module.css";

const FEW = 8; // metrics that one sees at once
const findParam = param("find_metric");

export function MetricsPanel({ job }: { job: Job }) {
  const metrics = metricsOf(job);
  const goal = goalMetricOf(job.spec, Object.keys(metrics));
  const names = inOrder(Object.keys(metrics), goal);
  if (names.length === 0) return null;
  const hasEpochs = names.some((name) => metrics[name]?.best_epoch != null);
  return (
    <Panel
      title="Metrics"
      flush
      tools={names.length > FEW ? <Find label="Find metrics" text={findParam} /> : undefined}
    >
      <div class={styles["metrics"]}>
        <RowsTable
          label="Table of metrics"
          rows={names.filter(finder(findParam.value))}
          keyOf={(name) => name}
          columns={[
            { name: "Metric", cell: (name) => <Name name={name} isGoal={name === goal} /> },
            { name: "Last", isFigure: true, cell: (name) => number(metrics[name]?.last) },
            {
              name: "Best",
              isFigure: true,
              cell: (name) => number(metrics[name]?.best),
              title: (name) => (isBetterLower(name, goalOf(job.spec)) ? "The least value" : "The greatest value"),
            },
            ...(hasEpochs
              ? [{ name: "In epoch", isFigure: true, cell: (name: string) => number(metrics[name]?.best_epoch) }]
              : []),
          ]}
        />
      </div>
    </Panel>
  );
}

function Name({ name, isGoal }: { name: string; isGoal: boolean }) {
  return (
    <span class={styles["name"]}>
      {name}
      {isGoal && <span class={styles["goal"]}>goal</span>}
    </span>
  );
}
