// The curves of all runs: a chart for each metric, with one axis and one cursor.

import type { ComponentChildren } from "preact";
import { useCallback, useMemo } from "preact/hooks";
import { inLogX, type Line } from "../../charts/lines.ts";
import { Plot, type PlotProps } from "../../charts/plot.tsx";
import { type Scope, yChoice } from "../../charts/scope.ts";
import { type Smoothing, smoothed, weightOf } from "../../charts/smoothing.ts";
import { Zoom } from "../../charts/zoom.tsx";
import { fileStem, moment } from "../../format.ts";
import { isShare, metricText } from "../../metrics.ts";
import { ProblemNotice } from "../../parts/notice.tsx";
import { Panel } from "../../parts/panel.tsx";
import { listOf } from "../../query.ts";
import { type Axis, type Curve, canBeLog, countedIn } from "./curves.ts";
import { point, settledFocus } from "./focus.ts";
import { groupLines, groupMeans } from "./group_lines.ts";
import { lookNow } from "./group_tools.tsx";
import type { Group } from "./groups.ts";
import { nearestLine, type Place } from "./nearest.ts";
import styles from "./overlay.module.css";
import type { Run } from "./runs.ts";
import type { Curves } from "./use_curves.ts";
import { baselineParam, openParam } from "./view.ts";

interface Props {
  title?: string;
  scope: Scope;
  runs: readonly Run[];
  /** The groups of these runs; none if each run has its own line. */
  groups: readonly Group[];
  /** Ids of runs that are drawn faintly. */
  faded: ReadonlySet<string>;
  metrics: readonly string[];
  curves: Curves;
  axis: Axis;
  smooth: Smoothing;
  isLog: boolean;
  /** The axis is logarithmic. */
  isLogX?: boolean;
  /** The forms of charts by metric, if they are no metrics that jobs report. */
  forms?: ReadonlyMap<string, Form>;
  /** A text above the charts. */
  note?: string | null;
  tools?: ComponentChildren;
  onHide: (id: string) => void;
}

export function Overlay(props: Props) {
  const { title = "Curves", scope, runs, groups, faded, metrics, curves, axis, smooth, isLog, onHide } = props;
  const isLogX = (props.isLogX ?? false) && axis !== "clock";
  const shownRuns = useMemo(() => runs.filter((run) => !run.isHidden), [runs]);
  const unitX = axis === "time" || axis === "clock" ? "seconds" : countedIn(axis);
  const formatX = axis === "clock" ? clockText : undefined;
  const hasCharts = metrics.length > 0 && hasAny(shownRuns, metrics, curves.byRun);
  const emptyText =
    metrics.length === 0
      ? "Choose a metric."
      : `No curves yet: none of these runs has ${axis === "epoch" ? "finished an epoch" : "reported these metrics"}.`;
  const note = props.note ?? (hasCharts ? null : emptyText);
  const zoom = <Zoom scope={scope} unitX={unitX} formatX={formatX} isLogX={isLogX} />;
  return (
    <Panel title={title} flush tools={[zoom, props.tools]}>
      <ProblemNotice problem={curves.problem} />
      {note !== null && <p class={styles["none"]}>{note}</p>}
      {hasCharts && (
        <div class={styles["charts"]}>
          {metrics.map((metric) => (
            <MetricChart
              key={metric}
              metric={metric}
              runs={shownRuns}
              groups={groups}
              faded={faded}
              curves={curves.byRun}
              smooth={smooth}
              form={props.forms?.get(metric) ?? formOf(metric)}
              chart={{
                scope,
                xName: axis === "clock" ? "time" : metricText(axis),
                unitX,
                formatX,
                isLogX,
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

/** The name of a chart and the form of its values. */
type Form = Pick<PlotProps, "title" | "unit" | "format" | "isShare" | "yFrom" | "yTo">;

function formOf(metric: string): Form {
  return { title: metricText(metric), unit: countedIn(metric), isShare: isShare(metric) };
}

function clockText(seconds: number): string {
  return moment(new Date(seconds * 1000).toISOString());
}

/** Whether any run has any of the metrics; true until the curves have come. */
function hasAny(runs: readonly Run[], metrics: readonly string[], curves: Curves["byRun"]): boolean {
  return curves === undefined || runs.some(({ id }) => metrics.some((metric) => curves.get(id)?.has(metric)));
}

interface ChartProps extends Pick<Props, "runs" | "groups" | "faded" | "smooth"> {
  metric: string;
  curves: Curves["byRun"];
  form: Form;
  chart: Pick<PlotProps, "scope" | "xName" | "unitX" | "formatX" | "isLog" | "isLogX" | "onToggle">;
}

function MetricChart({ metric, form, chart, ...props }: ChartProps) {
  const { groups, curves } = props;
  const curveOf = useCallback((id: string) => curves?.get(id)?.get(metric), [curves, metric]);
  const runLines = useRunLines(props, curveOf);
  const meanLines = useGroupLines(props, curveOf);
  const shownLines = groups.length > 0 ? meanLines : runLines;
  const lines = useMemo(() => (chart.isLogX ? shownLines.map(inLogX) : shownLines), [shownLines, chart.isLogX]);
  const empty = curves === undefined ? "Loading…" : `No run has ${form.title} yet`;
  const onPointerMove = (event: PointerEvent): void => {
    const place = placeOf(event, chart.scope);
    if (place !== undefined)
      point(place && nearestLine(lines, place, { ...chart, ...form, ...yChoice(chart.scope, form.title) }));
  };
  return (
    <div onPointerMove={onPointerMove} onPointerLeave={() => point(null)}>
      <Plot
        {...chart}
        {...form}
        fileName={`compare-${fileStem(metric)}`}
        lines={lines}
        pointed={settledFocus.value}
        height={230}
        empty={empty}
      />
    </div>
  );
}

type LinesOf = Omit<ChartProps, "metric" | "form" | "chart">;
type CurveOf = (id: string) => Curve | undefined;

/** A line for each run. */
function useRunLines({ runs, groups, faded, smooth, curves: loaded }: LinesOf, curveOf: CurveOf): readonly Line[] {
  const isLoading = loaded === undefined; // then the legend has its entries already, so that it does not grow
  const ungrouped = groups.length > 0 ? NO_RUNS : runs;
  const curves = useMemo(
    () =>
      ungrouped.flatMap((run) => {
        const curve = curveOf(run.id);
        if (curve === undefined) return isLoading ? [{ run, curve: NO_CURVE, smooth: undefined }] : [];
        return [{ run, curve, smooth: weightOf(smooth) > 0 ? smoothed(curve.xs, curve.ys, smooth) : undefined }];
      }),
    [ungrouped, curveOf, smooth, isLoading],
  );
  const [focus, baseline] = [settledFocus.value, baselineParam.value];
  const focusedId = runs.some(({ id }) => id === focus) ? focus : null; // a hidden run is on no chart
  return useMemo(() => {
    const isBack = (run: Run): boolean => (focusedId === null ? faded.has(run.id) : focusedId !== run.id);
    return ordered(curves, isBack).map(({ run, curve, smooth }) => ({
      ...lineOf(run, curve, smooth, runs.length, isBack(run)),
      isThick: run.id === baseline,
    }));
  }, [curves, runs, faded, focusedId, baseline]);
}

const NO_RUNS: readonly Run[] = [];
const NO_CURVE: Curve = { xs: new Float64Array(), ys: new Float64Array(), bands: [] };

/** A line for each group, and the runs of the group in focus. */
function useGroupLines({ groups, faded, smooth, curves }: LinesOf, curveOf: CurveOf): readonly Line[] {
  const means = useMemo(
    () => groupMeans(groups, faded, curves === undefined ? () => NO_CURVE : curveOf),
    [groups, faded, curves, curveOf],
  );
  const { middle, band } = lookNow();
  const [openText, focus] = [openParam.value, settledFocus.value];
  return useMemo(
    () => groupLines(means, { middle, band }, smooth, { focus, open: new Set(listOf(openText)) }),
    [means, middle, band, smooth, focus, openText],
  );
}

/** The position of the pointer on a chart: null outside of the plot area, undefined while it drags. */
function placeOf(event: PointerEvent, { cursor, range, zoom }: Scope): Place | null | undefined {
  if (event.buttons !== 0) return undefined;
  const field = (event.target as Element).closest(".u-over")?.getBoundingClientRect();
  const [x, inView] = [cursor.peek(), range.peek()];
  if (field === undefined || x === null || inView === null) return null;
  return { x, top: event.clientY - field.top, height: field.height, range: inView, isZoomed: zoom.peek() !== null };
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
    ...(count <= FEW ? curve.around : {}),
    colour: isBack ? "faded" : run.colour,
    dash: run.dash,
  };
}

const MANY = 12; // more runs than a legend has room for

/** The order of drawing: faint runs first. With few runs the order of the legend stays. */
function ordered<T extends { run: Run }>(curves: readonly T[], isBack: (run: Run) => boolean): readonly T[] {
  if (curves.length <= MANY) return curves;
  return curves.toSorted((a, b) => Number(isBack(b.run)) - Number(isBack(a.run)));
}
