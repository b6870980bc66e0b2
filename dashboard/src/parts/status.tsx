// The state of a job, as a word with a sign and a colour: no colour has to be seen to read it.

import type { EndReason, Status } from "../api/types.ts";
import { words } from "../format.ts";
import styles from "./status.module.css";

const SIGNS: Record<Status, string> = {
  queued: "◷",
  launching: "◌",
  running: "▶",
  succeeded: "✓",
  failed: "✕",
  cancelled: "⊘",
};

interface Props {
  status: Status;
  reason?: EndReason | null;
  /** Since when it is asked to stop, or to wait. */
  cancelRequestedAt?: string | null;
  pausedAt?: string | null;
}

export function StatusBadge({ status, reason, cancelRequestedAt, pausedAt }: Props) {
  const isLive = !isTerminal(status);
  const shown = isLive && cancelRequestedAt ? "cancelling" : isLive && pausedAt ? "paused" : status;
  const more = reasonOf(status, reason ?? null);
  return (
    <span class={`${styles["badge"]} ${styles[status]}`} data-status={status}>
      <span aria-hidden="true">{SIGNS[status]}</span> {shown}
      {more !== null && <span class={styles["reason"]}> {more}</span>}
    </span>
  );
}

/** Why it ended, in words; null where the state says so already. */
export function reasonOf(status: Status, reason: EndReason | null): string | null {
  return reason === null || reason === "completed" || reason === status ? null : words(reason);
}

export function isTerminal(status: Status): boolean {
  return status === "succeeded" || status === "failed" || status === "cancelled";
}
