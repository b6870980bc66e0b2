// What a job has used of its slots' time, and what that costs. Pure.

import type { Attempt } from "../../../api/types.ts";

type Held = Pick<Attempt, "created_at" | "ended_at" | "gpus" | "price_per_hour">;

/** Of all attempts, of a live one up to now. The cost is null if an attempt has no price. */
export function usageOf(attempts: readonly Held[], nowMs: number): { gpuHours: number; cost: number | null } {
  let gpuHours = 0;
  let cost: number | null = 0;
  for (const { created_at, ended_at, gpus, price_per_hour: price } of attempts) {
    const hours = Math.max(0, (ended_at === null ? nowMs : Date.parse(ended_at)) - Date.parse(created_at)) / 3_600_000;
    gpuHours += hours * gpus;
    cost = cost === null || price == null ? null : cost + hours * price;
  }
  return { gpuHours, cost };
}
