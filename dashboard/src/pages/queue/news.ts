// Which news of all jobs concern the queue. Used by `page.tsx`.

import type { Job, Queue } from "../../api/types.ts";

/** A part of `state` in docs/live.md, of any job. */
export type AnyState = Pick<Job, "id" | "status">;

/** Whether the queue may look different after this: for a job that waits, or that waited when the queue was read. */
export function concernsQueue(queue: Queue | undefined, { id, status }: AnyState): boolean {
  return status === "queued" || (queue?.items.some((item) => item.id === id) ?? false);
}
