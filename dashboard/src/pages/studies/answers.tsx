// The main charts of a study: speed-up, time to the goal, cost of the goal.

import type { StudyReport } from "../../api/types.ts";
import { Bars } from "../../charts/bars.tsx";
import { PointChart } from "../../charts/point_chart.tsx";
import { countText, gpuTime, number } from "../../format.ts";
import { metricText } from "../../metrics.ts";
import { Panel } from "../../parts/panel.tsx";
import styles from "./answers.module.css";
import { barsOf, costLines, mainField, speedupLines } from "./charts.ts";
import { estimateOf, estimateText, fieldLabel, figureOf, goalFigure, goalOf, slotNoun } from "./figures.ts";
import { Target } from "./target.tsx";

const timesAsFast = (value: number): string => number(value, 3);

/** Speed-up over GPUs beside the ideal line, or a note if GPUs do not vary. */
export function Speedup({ report }: { report: StudyReport }) {
  const { baseline } = report;
  if (baseline === null) return <NoSpeedup slots={countText(report.cells[0]?.gpus ?? 1, slotNoun(report))} />;
  const noun = slotNoun(report);
  const lines = speedupLines(report);
  const counts = [...new Set(report.cells.map(({ gpus }) => gpus))].sort((a, b) => a - b);
  return (
    <Panel title="Speed-up">
      <p class={styles["explanation"]}>
        The measured training time on {countText(baseline.gpus, noun)}, divided by that of the cell
        {report.scaling === "strong" && ", with the same global batch (strong scaling)"}
        {report.scaling === "weak" && ", with the same batch per GPU (weak scaling)"}. {intervals(report)}
      </p>
      {lines.length === 0 ? (
        <p class="muted">No cell has a result to compare with that on {countText(baseline.gpus, noun)} yet.</p>
      ) : (
        <PointChart
          title="Speed-up"
          xName={`${noun}s`}
          yName={`times as fast as ${countText(baseline.gpus, noun)}`}
          lines={lines}
          isJoined
          ideal={{ name: "ideal", points: counts.map((gpus) => [gpus, gpus / baseline.gpus]) }}
          xTicks={counts}
          isFromZero
          format={timesAsFast}
          formatX={String}
          formatEstimate={(estimate) => estimateText(estimate, timesAsFast)}
        />
      )}
    </Panel>
  );
}

function NoSpeedup({ slots }: { slots: string }) {
  return (
    <Panel title="Speed-up">
      <p class="muted">Every cell has {slots}. A grid with several GPU counts shows the speed-up here.</p>
    </Panel>
  );
}

function intervals(report: StudyReport): string {
  return report.repeats === 1
    ? "There are no intervals, as there is one repeat."
    : "The whiskers are 95\u00a0% intervals of the cell's own time; a cell with one repeat has none.";
}

/** The goal in a title: accuracy, or the name of another metric. */
function goalWord(report: StudyReport): string {
  const { metric } = goalOf(report);
  return metric === "val_accuracy" ? "accuracy" : metricText(metric);
}

/** The training time to the target. */
export function TimeToTarget({ report }: { report: StudyReport }) {
  const title = `Time to ${goalWord(report)}`;
  const figure = figureOf("time_to_target_s");
  const { groups, series } = barsOf(report, figure);
  const hasAny = series.some(({ values }) => values.some((value) => value !== null));
  return (
    <Panel title={title} tools={<Target report={report} />}>
      <Reached report={report} />
      {hasAny && (
        <Bars
          title={title}
          xName={fieldLabel(mainField(report))}
          yName="training time to the target"
          groups={groups}
          series={series}
          isFromZero
          format={figure.format}
          formatEstimate={(estimate) => estimateText(estimate, figure.format)}
        />
      )}
    </Panel>
  );
}

const CHOSEN_BY: Readonly<Record<string, string>> = {
  study: "from the study",
  request: "chosen here",
  results: "reached by most cells",
};

function Reached({ report }: { report: StudyReport }) {
  const { target, cells } = report;
  const goal = goalFigure(report);
  if (target === null) {
    const hasValues = cells.some((cell) => estimateOf(report, cell, goal.key) !== null);
    return (
      <p class="muted">
        {hasValues
          ? `There is no target: ${goal.label} has no values by epoch, or they are 0.`
          : `No cell has a value of ${goal.label} yet, so there is no target.`}
      </p>
    );
  }
  const measured = cells.filter(({ repeats }) => repeats > 0);
  const all = measured.filter((cell) => cell.reached_target === cell.repeats).length;
  return (
    <p class={styles["explanation"]}>
      To {goal.label} {target.value}
      {goal.better === "less" ? " or less" : ""}, {CHOSEN_BY[target.chosen_by] ?? target.chosen_by}: {all} of{" "}
      {countText(measured.length, "cell")} reached it with every repeat.{" "}
      {all === 0 ? "Choose an easier target to see times." : all < measured.length ? "The others have no bar." : ""}
    </p>
  );
}

/** The slot time and the goal of each cell. */
export function Cost({ report }: { report: StudyReport }) {
  const lines = costLines(report);
  if (lines.length === 0) return null;
  const { format, label, better, maximum } = goalFigure(report);
  const title = `Cost of ${goalWord(report)}`;
  return (
    <Panel title={title}>
      <p class={styles["explanation"]}>
        Each point is a cell: further left is cheaper, further {better === "less" ? "down" : "up"} is better.
      </p>
      <PointChart
        title={title}
        xName="slot time"
        yName={label}
        lines={lines}
        isJoined={false}
        isFromZero={false}
        format={format}
        formatX={gpuTime}
        formatEstimate={(estimate) => estimateText(estimate, format)}
        maximum={maximum}
      />
    </Panel>
  );
}
