// The newest figures of a GPU. A figure that the card does not report is null.

import type { Slot } from "../../api/types.ts";

export interface Reading {
  readonly percent: number | null;
  readonly memory_bytes: number | null;
  readonly power_w: number | null;
  readonly temperature_c: number | null;
  /** Why its clock is reduced. */
  readonly slowed: readonly string[];
  readonly isLost: boolean;
  readonly at: string | null;
}

// The bits of NVML's reasons that mean a slowdown. Idle clocks and set limits are not among them.
const REASONS = [
  [0x04, "power cap"],
  [0x08, "hardware slowdown"],
  [0x20, "hot"],
  [0x40, "too hot"],
  [0x80, "power brake"],
] as const;

export function readingOf({ reading }: Slot): Reading | null {
  if (reading === null) return null;
  const figure = (name: string): number | null => (typeof reading[name] === "number" ? reading[name] : null);
  const bits = figure("throttle") ?? 0;
  return {
    percent: figure("percent"),
    memory_bytes: figure("memory_bytes"),
    power_w: figure("power_w"),
    temperature_c: figure("temperature_c"),
    slowed: REASONS.filter(([bit]) => (bits & bit) !== 0).map(([, reason]) => reason),
    isLost: reading["is_lost"] === true,
    at: typeof reading["at"] === "string" ? reading["at"] : null,
  };
}
