// The curves of all runs: a chart for each metric, with one axis and one cursor.

import { useMemo } from "preact/hooks";
import type { Line } from "../../charts/lines.ts";
import { Plot } from "../../charts/plot.tsx";
import { newScope, type Scope } from "../../charts/scope.ts";
import { smoothed } from "../../charts/smoothing.ts";
import { Zoom } from "../../charts/zoom.tsx";
import { metricText } from "../../metrics.ts";
import { ProblemNotice } from "../../parts/notice.tsx";
import { Panel } from "../../parts/panel.tsx";
import { type Axis, type Curve, canBeLog, countedIn } from "./curves.ts";
import { focused, settledFocus } from "./focus.ts";
import { nearestLine, type Place } from "./nearest.ts";
import styles from "./overlay.module.css";
import type { Run } from "./runs.ts";
import type { Curves } from "./use_curves.ts";

interface Props {
  runs: readonly Run[];
  /** Ids of runs that are drawn faintly. */
  faded: ReadonlySet<string>;
  metrics: readonly string[];
  curves: Curves;
  axis: Axis;
  smooth: number;
  isLog: boolean;
  onHide: (id: string) => void;
}

export function Overlay({ runs, faded, metrics, curves, axis, smooth, isLog, onHide }: Props) {
  const scope = useMemo(() => newScope(), [axis]);
  const shownRuns = useMemo(() => runs.filter((run) => !run.isHidden), [runs]);
  const unitX = axis === "time" ? "seconds" : "tens";
  const emptyText = hasAny(shownRuns, metrics, curves.byRun)
    ? null
    : `No curves yet: none of these runs has ${axis === "epoch" ? "finished an epoch" : "reported these metrics"}.`;
  return (
    <Panel title="Curves" flush tools={<Zoom scope={scope} unitX={unitX} />}>
      <ProblemNotice problem={curves.problem} />
      {metrics.length === 0 || emptyText !== null ? (
        <p class={styles["none"]}>{metrics.length === 0 ? "Choose a metric." : emptyText}</p>
      ) : (
        <div class={styles["charts"]}>
          {metrics.map((metric) => (
            <MetricChart
              key={metric}
              metric={metric}
              runs={shownRuns}
              faded={faded}
              curves={curves.byRun}
              smooth={smooth}
              chart={{
                scope,
                xName: axis,
                unitX,
                isLog: isLog && canBeLog(metric),
                onToggle: onHide,
              }}
            />
          ))}
        </div>
      )}
    </Panel>
  );
}

/** Whether any run has any of the metrics; true until the curves have come. */
function hasAny(runs: readonly Run[], metrics: readonly string[], curves: Curves["byRun"]): boolean {
  return curves === undefined || runs.some(({ id }) => metrics.some((metric) => curves.get(id)?.has(metric)));
}

interface ChartProps {
  metric: string;
  runs: readonly Run[];
  faded: ReadonlySet<string>;
  curves: Curves["byRun"];
  smooth: number;
  chart: Pick<Parameters<typeof Plot>[0], "scope" | "xName" | "unitX" | "isLog" | "onToggle">;
}

function MetricChart({ metric, runs, faded, curves, smooth, chart }: ChartProps) {
  const smoothCurves = useMemo(() => {
    const smoothedByCurve = new Map<Curve, Float64Array>();
    if (smooth === 0) return smoothedByCurve;
    for (const curveByMetric of curves?.values() ?? []) {
      const curve = curveByMetric.get(metric);
      if (curve !== undefined) smoothedByCurve.set(curve, smoothed(curve.xs, curve.ys, smooth));
    }
    return smoothedByCurve;
  }, [curves, metric, smooth]);
  const focus = settledFocus.value;
  const focusedId = runs.some(({ id }) => id === focus) ? focus : null; // a hidden run is on no chart
  const lines = useMemo(() => {
    const isBack = (run: Run): boolean => (focusedId === null ? faded.has(run.id) : focusedId !== run.id);
    return ordered(runs, isBack).flatMap((run): Line[] => {
      const curve = curves?.get(run.id)?.get(metric);
      return curve === undefined ? [] : [lineOf(run, curve, smoothCurves.get(curve), runs.length, isBack(run))];
    });
  }, [runs, faded, curves, metric, smoothCurves, focusedId]);
  const empty = curves === undefined ? "Loading…" : `No run has ${metricText(metric)} yet`;
  const onPointerMove = (event: PointerEvent): void => {
    const place = placeOf(event, chart.scope);
    if (place !== undefined) focused.value = place && nearestLine(lines, place, chart.isLog ?? false);
  };
  return (
    <div onPointerMove={onPointerMove} onPointerLeave={() => (focused.value = null)}>
      <Plot {...chart} title={metricText(metric)} lines={lines} unit={countedIn(metric)} height={230} empty={empty} />
    </div>
  );
}

/** The position of the pointer on a chart: null outside of the plot area, undefined while it drags. */
function placeOf(event: PointerEvent, { cursor, range }: Scope): Place | null | undefined {
  if (event.buttons !== 0) return undefined;
  const field = (event.target as Element).closest(".u-over")?.getBoundingClientRect();
  const [x, inView] = [cursor.peek(), range.peek()];
  if (field === undefined || x === null || inView === null) return null;
  return { x, top: event.clientY - field.top, height: field.height, range: inView };
}

const FEW = 4; // runs whose names have room in a legend
const LONGEST = 20; // letters of a name

function lineOf(run: Run, curve: Curve, smooth: Float64Array | undefined, count: number, isBack: boolean): Line {
  const label = run.label.length > LONGEST ? `${run.label.slice(0, LONGEST - 1)}…` : run.label;
  return {
    key: run.id,
    name: count <= FEW ? `${run.number} ${label}` : String(run.number),
    xs: curve.xs,
    ys: curve.ys,
    ...(smooth ? { smooth } : {}),
    colour: isBack ? "faded" : run.colour,
    dash: run.dash,
  };
}

const MANY = 12; // more runs than a legend has room for

/** The order of drawing: faint runs first. With few runs the order of the legend stays. */
function ordered(runs: readonly Run[], isBack: (run: Run) => boolean): readonly Run[] {
  if (runs.length <= MANY) return runs;
  return runs.toSorted((a, b) => Number(isBack(b)) - Number(isBack(a)));
}
