// The findings of the report, and its best cells.

import type { StudyReport } from "../../api/types.ts";
import { Panel } from "../../parts/panel.tsx";
import { goalOf, othersKey } from "./figures.ts";
import styles from "./findings.module.css";

const BEST: Readonly<Record<string, string>> = {
  wall_s: "fastest",
  samples_per_s: "highest throughput",
  val_accuracy: "most accurate",
  goal: "best by the goal",
  gpu_hours: "fewest slot-hours",
  cost: "cheapest",
  time_to_target_s: "first at the target",
  gpu_hours_to_target: "fewest slot-hours to the target",
};

export function Findings({ report }: { report: StudyReport }) {
  const bestTexts = bestCells(report);
  return (
    <Panel title="Findings">
      {report.findings.length === 0 ? (
        <p class="muted">
          No findings yet: {report.trials ? "no trial has a result" : "no two cells have results to compare"}.
        </p>
      ) : (
        <ul class={styles["findings"]}>
          {report.findings.map((finding) => (
            <li key={finding}>{finding}</li>
          ))}
        </ul>
      )}
      {report.next_steps.length > 0 && (
        <>
          <h3 class={styles["next"]}>Next steps</h3>
          <ol class={styles["findings"]}>
            {report.next_steps.map((step) => (
              <li key={step}>{step}</li>
            ))}
          </ol>
        </>
      )}
      {bestTexts.length > 0 && (
        <dl class={styles["best"]}>
          {bestTexts.map(([cell, figures]) => (
            <div key={cell}>
              <dt>{cell}</dt>
              <dd>{figures}</dd>
            </div>
          ))}
        </dl>
      )}
    </Panel>
  );
}

/** The best cells with the figures in which they are best. A single cell has nothing to compare with. */
function bestCells(report: StudyReport): [cell: string, figures: string][] {
  if (report.cells.length < 2 || report.trials) return []; // a search names its best trial
  const figuresByCell = new Map<string, string[]>();
  const isNamedTwice = report.best[goalOf(report).metric] !== undefined; // as the goal too
  for (const [figure, position] of Object.entries(report.best)) {
    const cell = report.cells[position];
    if (cell === undefined || (figure === "goal" && isNamedTwice)) continue;
    const name = othersKey(cell);
    figuresByCell.set(name, [...(figuresByCell.get(name) ?? []), BEST[figure] ?? figure]);
  }
  return [...figuresByCell].map(([cell, figures]) => [cell, figures.join(", ")]);
}
