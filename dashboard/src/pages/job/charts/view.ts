// The settings of a job's charts as texts of the address.

import { type Smoothing, smoothingFrom } from "../../../charts/smoothing.ts";
import { listOf } from "../../../query.ts";

export type Axis = "step" | "epoch" | "time";

/** The lines to show: each rank's, the mean of all ranks, or one rank's. */
export type Ranks = "all" | "mean" | number;

export const AXES: readonly (readonly [Axis, string])[] = [
  ["step", "Step"],
  ["epoch", "Epoch"],
  ["time", "Time"],
];
export const DEFAULTS = { smooth: 0.6, logs: ["times"], open: ["learning", "speed", "slots"] } as const;
const FEW_RANKS = 8; // each has a colour of its own

export function axisOf(text: string, defaultAxis: Axis): Axis {
  return AXES.find(([axis]) => axis === text)?.[0] ?? defaultAxis;
}

export function smoothFrom(text: string): Smoothing {
  return smoothingFrom(text, DEFAULTS.smooth);
}

/** The ranks that a text names. By default all of few ranks, or the mean of many. */
export function ranksOf(text: string, count: number): Ranks {
  if (text === "all" || text === "mean") return text;
  if (/^\d+$/.test(text) && Number(text) < count) return Number(text);
  return count <= FEW_RANKS ? "all" : "mean";
}

/** The items of a list, which may be empty. Without a text, the default items. */
export function setOf(text: string, defaultItems: readonly string[]): ReadonlySet<string> {
  return new Set(text === "" ? defaultItems : text === "none" ? [] : listOf(text));
}

/** The text of such a list; null for the default items. */
export function textOf(items: ReadonlySet<string>, defaultItems: readonly string[]): string | null {
  if (items.size === defaultItems.length && defaultItems.every((item) => items.has(item))) return null;
  return items.size === 0 ? "none" : [...items].join(",");
}

export function toggled(items: ReadonlySet<string>, item: string): ReadonlySet<string> {
  const next = new Set(items);
  if (!next.delete(item)) next.add(item);
  return next;
}
