// The state of a job or a study.

import type { EndReason, Status } from "../api/types.ts";
import { words } from "../format.ts";
import { Badge, type Tone } from "./badge.tsx";

const LOOKS: Record<Status, readonly [sign: string, tone: Tone]> = {
  queued: ["◷", "idle"],
  launching: ["◌", "live"],
  running: ["▶", "live"],
  succeeded: ["✓", "good"],
  failed: ["✕", "bad"],
  cancelled: ["⊘", "idle"],
};

interface Props {
  status: Status;
  reason?: EndReason | null;
  /** When a person asked to cancel the job, or to pause it. */
  cancelRequestedAt?: string | null;
  pausedAt?: string | null;
}

export function StatusBadge({ status, reason, cancelRequestedAt, pausedAt }: Props) {
  const isLive = !isTerminal(status);
  const shown = isLive && cancelRequestedAt ? "cancelling" : isLive && pausedAt ? "paused" : status;
  const [sign, tone] = LOOKS[status];
  return <Badge tone={tone} sign={sign} text={shown} more={reasonOf(status, reason ?? null)} />;
}

/** The end reason in words; null if the status says the same. */
export function reasonOf(status: Status, reason: EndReason | null): string | null {
  return reason === null || reason === "completed" || reason === status ? null : words(reason);
}

export function isTerminal(status: Status): boolean {
  return status === "succeeded" || status === "failed" || status === "cancelled";
}
