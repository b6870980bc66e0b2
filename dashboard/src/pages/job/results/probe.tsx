// The results of a batch probe: the batches that it tried, where throughput stops growing, and its proposal.

import type { Job, ProbeFindings, ProbePoint } from "../../../api/types.ts";
import { bytes, number, percent, short } from "../../../format.ts";
import { Panel } from "../../../parts/panel.tsx";
import { figureOf } from "../analysis/evidence.ts";
import { CopyButton } from "../copy_button.tsx";
import { type Column, RowsTable } from "../rows_table.tsx";
import { bestPoint } from "./probed.ts";
import styles from "./results.module.css";

const ENDS: Record<NonNullable<ProbeFindings["ended_by"]>, string> = {
  largest: "this was the largest batch to try",
  memory: "the next one does not fit the memory",
  data: "the next one is larger than the training data",
  time: "a step takes longer than probe.seconds",
};

/** Whether a job is a batch probe. */
export function isProbe(job: Job): boolean {
  return job.spec["probe"] != null;
}

export function ProbePanel({ job }: { job: Job }) {
  const { probe } = job;
  if (probe === null || probe.points.length === 0) {
    return (
      <Panel title="Batch probe">
        <p class="muted">
          {job.ended_at === null ? "No batch has been measured yet." : "The probe ended before its first batch."}
        </p>
      </Panel>
    );
  }
  return (
    <Panel title="Batch probe" flush>
      <RowsTable
        label="Batches"
        columns={columnsFor(probe)}
        rows={probe.points}
        keyOf={(point) => point.per_gpu_batch}
      />
      {probe.ended_by != null && <Proposal job={job.id} probe={probe} />}
    </Panel>
  );
}

function columnsFor(probe: ProbeFindings): readonly Column<ProbePoint>[] {
  const measured = (of: (point: ProbePoint, stepS: number) => string) => (point: ProbePoint) =>
    point.fits && point.step_time_s != null ? of(point, point.step_time_s) : "–";
  const bestSamplesPerS = bestPoint(probe)?.samples_per_s ?? 0;
  return [
    { name: "Batch per GPU", cell: (point) => `${point.per_gpu_batch}${marksOf(point, probe)}` },
    { name: "Global batch", isFigure: true, cell: (point) => number(point.global_batch) },
    {
      name: "Samples/s",
      isFigure: true,
      cell: (point) => (point.fits ? short(point.samples_per_s) : "does not fit the memory"),
    },
    {
      name: "Of the best",
      isFigure: true,
      cell: measured((point) => percent((point.samples_per_s ?? 0) / bestSamplesPerS)),
    },
    { name: "Step", isFigure: true, cell: measured((_, stepS) => figureOf("step_s", stepS)) },
    {
      name: "Data wait",
      isFigure: true,
      cell: measured(({ data_wait_s: waitS }, stepS) => percent((waitS ?? 0) / ((waitS ?? 0) + stepS))),
    },
    {
      name: "Allreduce",
      isFigure: true,
      cell: measured(({ allreduce_s: spentS, data_wait_s: waitS }, stepS) =>
        percent(typeof spentS === "number" ? spentS / ((waitS ?? 0) + stepS) : null),
      ),
    },
    { name: "Memory", isFigure: true, cell: measured((point) => bytes(point.memory_bytes)) },
  ];
}

/** Notes on a batch: the knee, the largest. */
function marksOf(point: ProbePoint, probe: ProbeFindings): string {
  const marks = [
    point.per_gpu_batch === probe.knee_batch ? "knee" : "",
    point.per_gpu_batch === probe.largest_batch ? "largest" : "",
  ].filter((mark) => mark !== "");
  return marks.length === 0 ? "" : ` (${marks.join(", ")})`;
}

function Proposal({ job, probe }: { job: string; probe: ProbeFindings }) {
  const command = `hora clone ${job} --set probe=null --set batch_size=${probe.batch_size} --set learning_rate=${probe.learning_rate}`;
  return (
    <div class={styles["proposal"]}>
      {probe.why != null && <p>{probe.why}</p>}
      {probe.ended_by != null && probe.largest_batch != null && (
        <p class="muted">
          The probe ended at {probe.largest_batch} per GPU: {ENDS[probe.ended_by]}.
        </p>
      )}
      {probe.batch_size != null && (
        <>
          <p>
            Proposal: <strong>batch_size {probe.batch_size}</strong>,{" "}
            <strong>learning_rate {number(probe.learning_rate)}</strong>
          </p>
          <p class={styles["command"]}>
            <code>{command}</code>
            <CopyButton text={() => command} label="Copy the command">
              Copy
            </CopyButton>
          </p>
        </>
      )}
    </div>
  );
}
