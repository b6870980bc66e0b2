// The jobs that were deleted while the page is open, by it or by others. Lists leave them out at once, also while an older answer is on its way.

import { signal } from "@preact/signals";
import { remove } from "./api/client.ts";

export const WHAT_GOES =
  "Curves, logs, checkpoints and artifacts go, and cannot be brought back. The GPU-hours stay in the usage of the project.";

export const deletedIds = signal<ReadonlySet<string>>(new Set());

export async function deleteJob({ id }: { readonly id: string }): Promise<void> {
  await remove(`/v1/jobs/${id}`);
  markDeleted({ id });
}

/** Take a `deleted` event of `GET /v1/events`. */
export function markDeleted({ id }: { readonly id: string }): void {
  deletedIds.value = new Set([...deletedIds.peek(), id]);
}
