// The quotas of a project in words, and the changes of the form. Pure.

import type { Project } from "../../api/types.ts";
import { number } from "../../format.ts";
import { numberOf, textOf } from "../settings/matching.ts";

/** What is in use, and of how much: `3 of 8`. */
export function ofQuota(used: number, most: number | null): string {
  return most === null ? number(used) : `${number(used)} of ${number(most)}`;
}

export function stateOf({ is_open, archived_at }: Project): string {
  if (archived_at !== null) return "archived";
  return is_open ? "open to all" : "members only";
}

export const QUOTAS = [
  ["max_slots", "Slots at once"],
  ["max_queued", "Jobs in the queue"],
  ["max_gpu_hours", "GPU-hours in a month"],
  ["max_storage_gb", "Stored, GB"],
  ["max_priority", "Highest priority"],
] as const satisfies readonly (readonly [keyof Project, string])[];

/** What the form changes: only the fields that differ, so that it takes back nothing that somebody else has changed. */
export function changesOf(before: Project, fields: FormData): Record<string, unknown> {
  const asked: Record<string, unknown> = {
    description: textOf(fields, "description") ?? "",
    is_open: fields.get("is_open") !== null,
    is_archived: fields.get("is_archived") !== null,
    share: numberOf(fields, "share") ?? 1,
    ...Object.fromEntries(QUOTAS.map(([name]) => [name, numberOf(fields, name)])),
  };
  const known: Record<string, unknown> = { ...before, is_archived: before.archived_at !== null };
  return Object.fromEntries(Object.entries(asked).filter(([name, value]) => value !== (known[name] ?? null)));
}
