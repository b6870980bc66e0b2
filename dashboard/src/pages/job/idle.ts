// What is said of slots that nobody uses, in words. Used by the header and the events of a job.

import type { IdleNotice } from "../../api/types.ts";
import { moment } from "../../format.ts";

const WILL: Record<IdleNotice["action"], string> = {
  warn: "is reported",
  pause: "is paused",
  stop: "is stopped",
};
const DID: Record<IdleNotice["action"], string> = { warn: "Reported", pause: "Paused", stop: "Stopped" };

/** Since 14:02:00 its 8 GPUs are used less than 5 %. At 14:32:00 it is paused, unless they are used again. */
export function idleText({ since, acts_at, acted_at, action, why }: IdleNotice, now = new Date()): string {
  if (acted_at != null) return `${DID[action] ?? action}: ${why}.`;
  const warning = `Since ${moment(since, now)} ${why}.`;
  if (acts_at === null) return warning;
  return `${warning} At ${moment(acts_at, now)} it ${WILL[action] ?? action}, unless they are used again.`;
}
