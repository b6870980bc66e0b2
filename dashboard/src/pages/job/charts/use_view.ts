// The settings of a job's charts, from the page's address.

import type { Signal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import type { Smoothing } from "../../../charts/smoothing.ts";
import { useSettled } from "../../../settled.ts";
import { param } from "../../../url.ts";
import { type Axis, axisOf, DEFAULTS, type Ranks, ranksOf, setOf, smoothFrom } from "./view.ts";

export interface View {
  readonly axis: Axis;
  readonly ranks: Ranks;
  /** What the names of the shown charts contain; empty for all. */
  readonly find: string;
  /** The groups of charts that are unfolded, and the sections (`-NAME`) that are folded. */
  readonly open: ReadonlySet<string>;
  /** Which groups have a logarithmic scale: losses, times. */
  readonly logs: ReadonlySet<string>;
  /** The keys of lines that are hidden on all charts. */
  readonly hidden: ReadonlySet<string>;
  readonly smooth: Signal<Smoothing>;
}

const SMOOTH = {
  read: (params: URLSearchParams): Smoothing => smoothFrom(params.get("smooth") ?? ""),
  write: (smooth: Smoothing) => ({ smooth: smooth === DEFAULTS.smooth ? null : String(smooth) }),
};

export const findParam = param("find");

export function useView(count: number, defaultAxis: Axis): View {
  const [open, logs, hidden] = [param("charts").value, param("log").value, param("hide").value];
  return {
    axis: axisOf(param("x").value, defaultAxis),
    find: findParam.value,
    ranks: ranksOf(param("ranks").value, count),
    open: useMemo(() => setOf(open, DEFAULTS.open), [open]),
    logs: useMemo(() => setOf(logs, DEFAULTS.logs), [logs]),
    hidden: useMemo(() => setOf(hidden, []), [hidden]),
    smooth: useSettled(SMOOTH),
  };
}
