// The curves of all runs over each other, a chart for each metric, on one axis and with one cursor.

import { useMemo } from "preact/hooks";
import type { Line } from "../../charts/lines.ts";
import { Plot } from "../../charts/plot.tsx";
import { newScope } from "../../charts/scope.ts";
import { smoothed } from "../../charts/smoothing.ts";
import { duration, number, words } from "../../format.ts";
import { ProblemNotice } from "../../parts/notice.tsx";
import { Panel } from "../../parts/panel.tsx";
import { type Curve, canBeLog, formatOf } from "./curves.ts";
import { focused } from "./focus.ts";
import styles from "./overlay.module.css";
import type { Run } from "./runs.ts";
import type { Axis, Curves } from "./use_curves.ts";

interface Props {
  runs: readonly Run[];
  metrics: readonly string[];
  curves: Curves;
  axis: Axis;
  smooth: number;
  isLog: boolean;
  onHide: (id: string) => void;
}

const FORMATS: Readonly<Record<Axis, (x: number) => string>> = { step: number, epoch: number, time: duration };

export function Overlay({ runs, metrics, curves, axis, smooth, isLog, onHide }: Props) {
  const scope = useMemo(() => newScope(), [axis]);
  const shown = runs.filter((run) => !run.isHidden);
  return (
    <Panel title="Curves" flush>
      <ProblemNotice problem={curves.problem} />
      <div class={styles["charts"]} data-count={metrics.length}>
        {metrics.map((metric) => (
          <MetricChart
            key={metric}
            metric={metric}
            runs={shown}
            curves={curves.of}
            smooth={smooth}
            chart={{ scope, xName: axis, formatX: FORMATS[axis], isLog: isLog && canBeLog(metric), onToggle: onHide }}
          />
        ))}
        {metrics.length === 0 && <p class={styles["none"]}>No metric is chosen.</p>}
      </div>
    </Panel>
  );
}

interface ChartProps {
  metric: string;
  runs: readonly Run[];
  curves: Curves["of"];
  smooth: number;
  chart: Pick<Parameters<typeof Plot>[0], "scope" | "xName" | "formatX" | "isLog" | "onToggle">;
}

function MetricChart({ metric, runs, curves, smooth, chart }: ChartProps) {
  const smoothCurves = useMemo(() => {
    const found = new Map<Curve, Float64Array>();
    if (smooth === 0) return found;
    for (const of of curves?.values() ?? []) {
      const curve = of.get(metric);
      if (curve !== undefined) found.set(curve, smoothed(curve.xs, curve.ys, smooth));
    }
    return found;
  }, [curves, metric, smooth]);
  const at = focused.value;
  const lines = useMemo(
    () =>
      ordered(runs, at).flatMap((run): Line[] => {
        const curve = curves?.get(run.id)?.get(metric);
        return curve === undefined ? [] : [lineOf(run, curve, smoothCurves.get(curve), runs.length, at)];
      }),
    [runs, curves, metric, smoothCurves, at],
  );
  const empty = curves === undefined ? "Loading…" : `No run has ${words(metric)} yet`;
  return <Plot {...chart} title={words(metric)} lines={lines} format={formatOf(metric)} height={230} empty={empty} />;
}

const FEW = 4; // runs whose names have room in a legend

function lineOf(run: Run, curve: Curve, smooth: Float64Array | undefined, count: number, at: string | null): Line {
  const isBack = at === null ? run.isFaded : at !== run.id;
  return {
    key: run.id,
    name:
      count <= FEW
        ? `${run.number} ${run.label.length > 20 ? `${run.label.slice(0, 19)}…` : run.label}`
        : String(run.number),
    xs: curve.xs,
    ys: curve.ys,
    ...(smooth ? { smooth } : {}),
    colour: isBack ? "faded" : run.colour,
    dash: run.dash,
  };
}

const MANY = 12; // more runs than a legend has room for

/** As they are drawn: those that stand back first, the one that is pointed at last. A legend keeps its order. */
function ordered(runs: readonly Run[], at: string | null): readonly Run[] {
  if (runs.length <= MANY) return runs;
  const height = (run: Run): number => (run.id === at ? 2 : run.isFaded ? 0 : 1);
  return runs.toSorted((a, b) => height(a) - height(b));
}
