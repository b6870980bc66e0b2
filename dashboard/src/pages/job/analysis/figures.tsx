// The figures of an analysis as tables: steps, slots, stalls.

import type { ComponentChildren } from "preact";
import type { Analysis } from "../../../api/types.ts";
import { duration, moment, number, percent } from "../../../format.ts";
import { RowsTable } from "../rows_table.tsx";
import { figureOf } from "./evidence.ts";
import styles from "./findings.module.css";

export function StepTable({ steps }: { steps: Analysis["steps"] }) {
  // With one rank, the mean over all ranks is the same.
  const rankRows = steps.length === 2 ? steps.slice(0, 1) : steps;
  return (
    <Figures title="Time of a step" isOpen>
      <RowsTable
        isInset
        label="Time of a step"
        rows={rankRows}
        keyOf={({ rank }) => rank}
        columns={[
          {
            name: "Ranks",
            cell: ({ rank }) => (rank >= 0 ? `rank ${rank}` : rankRows.length === 1 ? "the rank" : "all ranks"),
          },
          { name: "Mean", isFigure: true, cell: (one) => figureOf("step_time_s", one.step_time_s) },
          { name: "Computing", isFigure: true, cell: ({ compute }) => percent(compute, 1) },
          { name: "Waiting for data", isFigure: true, cell: (one) => percent(one.data_wait, 1) },
          { name: "In allreduce", isFigure: true, cell: ({ allreduce }) => percent(allreduce, 1) },
        ]}
      />
    </Figures>
  );
}

export function SlotTable({ uses }: { uses: Analysis["utilization"] }) {
  const percentOf = (value: number): string => `${number(value, 3)} %`;
  return (
    <Figures title="Use of the slots">
      <RowsTable
        isInset
        label="Use of the slots"
        rows={uses}
        keyOf={({ attempt, rank, metric }) => `${attempt} ${rank} ${metric}`}
        columns={[
          { name: "Rank", cell: ({ rank }) => rank },
          { name: "Slot", cell: ({ host, slot, attempt }) => `${host} ${slot}, attempt ${attempt}` },
          { name: "Device", cell: ({ metric }) => (metric === "gpu_percent" ? "GPU" : "CPU") },
          { name: "Mean", isFigure: true, cell: ({ spread }) => percentOf(spread.mean) },
          { name: "Time at half or more", isFigure: true, cell: (use) => percent(use.duty_cycle) },
          { name: "p5", isFigure: true, cell: ({ spread }) => percentOf(spread.p5) },
          { name: "p95", isFigure: true, cell: ({ spread }) => percentOf(spread.p95) },
          { name: "Spikiness", isFigure: true, cell: ({ spikiness }) => number(spikiness, 2) },
          { name: "Period", isFigure: true, cell: (use) => duration(use.period_s) },
        ]}
      />
    </Figures>
  );
}

export function StallTable({ stalls }: { stalls: Analysis["stalls"] }) {
  return (
    <Figures title="Stalls" isOpen>
      <RowsTable
        isInset
        label="Stalls"
        rows={stalls}
        keyOf={({ attempt, after_step, began_at }) => `${attempt} ${after_step} ${began_at}`}
        columns={[
          { name: "Began", cell: (stall) => moment(stall.began_at) },
          { name: "After", cell: (stall) => `step ${stall.after_step} of attempt ${stall.attempt}` },
          {
            name: "Waited for",
            cell: ({ cause, rank }) => (cause === "rank" && rank !== null ? `rank ${rank}` : cause),
          },
          { name: "Length", isFigure: true, cell: (one) => duration(one.length_s) + (one.ongoing ? " so far" : "") },
          { name: "Usual step", isFigure: true, cell: (one) => figureOf("step_time_s", one.usual_step_s) },
          { name: "Slots busy", isFigure: true, cell: (one) => figureOf("use_percent", one.use_percent) },
        ]}
      />
    </Figures>
  );
}

function Figures({
  title,
  isOpen = false,
  children,
}: {
  title: string;
  isOpen?: boolean;
  children: ComponentChildren;
}) {
  return (
    <details class={styles["figures"]} open={isOpen}>
      <summary>{title}</summary>
      {children}
    </details>
  );
}
