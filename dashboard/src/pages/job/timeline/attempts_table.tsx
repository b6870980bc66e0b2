// The attempts of a job as a table: where each ran, how long its phases took, and why it ended.

import type { Attempt } from "../../../api/types.ts";
import { duration, moment, words } from "../../../format.ts";
import { endOf, preemptionOf } from "../reasons.ts";
import { type Column, RowsTable } from "../rows_table.tsx";
import { lengthOf, type Phase, type Segment, setUpParts } from "./segments.ts";
import styles from "./timeline.module.css";

interface Props {
  attempts: readonly Attempt[];
  segments: readonly Segment[];
}

export function AttemptsTable({ attempts, segments }: Props) {
  const phase = (name: string, key: Phase): Column<Attempt> => ({
    name,
    isFigure: true,
    cell: ({ number }) => duration(lengthOf(segments, number, key)),
  });
  const columns: readonly Column<Attempt>[] = [
    { name: "Attempt", cell: ({ number }) => number },
    { name: "Slots", cell: slotsOf },
    { name: "Began", cell: beginning },
    phase("Queued", "queued"),
    ...(attempts.some(({ handed_at }) => handed_at) ? [phase("In Slurm", "in_slurm")] : []),
    phase("Launch", "launch"),
    { ...phase("Set-up", "set_up"), title: setUpText },
    phase("Training", "training"),
    phase("Test and saving", "finishing"),
    { name: "Ended", cell: ({ ended_at }) => moment(ended_at) },
    { name: "End reason", cell: ending },
  ];
  return <RowsTable isInset label="Attempts" columns={columns} rows={attempts} keyOf={({ number }) => number} />;
}

/** The slots on each host: vm 0, 1. */
function slotsOf({ shares }: Attempt): string {
  return shares.map(({ host, slots }) => `${host} ${slots.join(", ")}`).join("; ");
}

function beginning({ created_at, resumed_step }: Attempt) {
  return (
    <>
      {moment(created_at)}
      {resumed_step ? <span class="muted"> from step {resumed_step.toLocaleString("en")}</span> : null}
    </>
  );
}

function setUpText({ setup }: Attempt): string {
  return setUpParts(setup)
    .map(([name, seconds]) => `${words(name)} ${duration(seconds)}`)
    .join("\n");
}

function ending(attempt: Attempt) {
  const { error, preemption } = attempt;
  if (preemption && attempt.end_reason === "preempted")
    return <div class={styles["why"]}>{preemptionOf(preemption)}</div>;
  const more = [error, preemption && preemptionOf(preemption)].filter(Boolean);
  return (
    <div class={styles["why"]}>
      {endOf(attempt)}
      {more.length > 0 && <span class="muted">: {more.join(", ")}</span>}
    </div>
  );
}
