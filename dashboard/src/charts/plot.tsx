// A chart of lines: title and legend, the lines, and a table for people who cannot see them.
//
// All charts of a `Scope` share one axis and one cursor. See `gestures.ts` and `keys.ts` for mouse, touch and keyboard.

import { computed, type Signal, useSignal, useSignalEffect } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useId, useMemo, useRef, useState } from "preact/hooks";
import { countText, fileStem } from "../format.ts";
import { theme } from "../theme.ts";
import { Canvas, type PlotContent } from "./canvas.ts";
import type { Picture } from "./export/drawing.ts";
import { save } from "./export/files.ts";
import { cursorKeys } from "./keys.ts";
import { Legend } from "./legend.tsx";
import { constantOf, fromLog, indexAt, type Line, pointText, type Range, xExtent, yExtent } from "./lines.ts";
import type { Mark } from "./pen.ts";
import styles from "./plot.module.css";
import { report, type Scope, yChoice } from "./scope.ts";
import { PointTable } from "./table.tsx";
import { formatOf, type Unit } from "./ticks.ts";
import { ChartTools } from "./tools.tsx";
import { type YAxis, yRange } from "./y_range.ts";

export interface PlotProps extends YAxis {
  title: string;
  lines: readonly Line[];
  scope: Scope;
  /** "step", "epoch" or "time". */
  xName: string;
  formatX?: ((x: number) => string) | undefined;
  /** The x of the lines are powers of ten (`inLogX`). */
  isLogX?: boolean;
  format?: (y: number) => string;
  /** The units of the values and of the x axis: the axes have round figures of them. */
  unit?: Unit;
  unitX?: Unit;
  /** Vertical lines with a word: a restart, the best epoch. */
  marks?: readonly Mark[];
  height?: number;
  /** Keys of lines that are not shown, and the handler of clicks in the legend. */
  hidden?: ReadonlySet<string>;
  onToggle?: (key: string) => void;
  /** The name of the files that the chart is saved as, without their ending. By default its title. */
  fileName?: string;
  /** The key of the line that the pointer is at. */
  pointed?: string | null;
  /** It is the large view of a chart: without a title and buttons. */
  isLarge?: boolean;
  /** The text while there are no points. */
  empty?: string;
  /** More buttons beside those of its files. */
  tools?: ComponentChildren;
}

const NO_KEYS: ReadonlySet<string> = new Set();
const NO_MARKS: readonly Mark[] = [];
const EVERYWHERE: Range = [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];

export function Plot(props: PlotProps) {
  const { title, lines, scope, xName, height = 200, hidden = NO_KEYS } = props;
  const { format, formatX } = formats(props);
  const [isTableOpen, setTableOpen] = useState(false);
  const table = useId();
  const visibleLines = useMemo(() => lines.filter((line) => !hidden.has(line.key)), [lines, hidden]);
  const mainLines = useMemo(() => lines.filter(({ isDetail }) => !isDetail), [lines]);
  const hasPoints = visibleLines.some((line) => line.xs.length > 0);
  const { isLog } = props;
  const hasPlaces = useMemo(
    () => yExtent(visibleLines, EVERYWHERE, isLog ? 0 : undefined) !== null,
    [visibleLines, isLog],
  );
  const [isDrawn, setDrawn] = useState(false);
  const constant = useMemo(() => (isDrawn ? null : constantOf(visibleLines)), [isDrawn, visibleLines]);
  const isNear = useSignal(false);
  const cursor = useMemo(() => computed(() => (isNear.value ? scope.cursor.value : null)), [scope, isNear]);
  useExtent(scope, visibleLines);
  return (
    <figure class={styles["plot"]} aria-label={title}>
      <figcaption class={styles["caption"]}>
        <span class={styles["title"]}>{!props.isLarge && title}</span>
        <Legend
          lines={mainLines}
          hidden={hidden}
          cursor={cursor}
          range={scope.range}
          format={format}
          onToggle={props.onToggle}
          pointed={props.pointed}
        />
        {(hasPoints || props.tools) && !props.isLarge && (
          <ChartTools
            title={title}
            more={props.tools}
            onSave={
              hasPoints &&
              ((kind) => void save(pictureOf(props, visibleLines), kind, props.fileName ?? fileStem(title)))
            }
            large={(px) => <Plot {...props} height={px} isLarge />}
          >
            <button
              type="button"
              aria-expanded={isTableOpen}
              aria-controls={isTableOpen ? table : undefined}
              aria-label={`Table of ${title}`}
              onClick={() => setTableOpen(!isTableOpen)}
            >
              Table
            </button>
          </ChartTools>
        )}
      </figcaption>
      {constant !== null ? (
        <div class={styles["constant"]} style={{ height: `${height}px` }}>
          <strong>{format(constant.value)}</strong>
          <span>the same at all {countText(constant.count, "point")}</span>
          <button type="button" aria-label={`Show the chart of ${title}`} onClick={() => setDrawn(true)}>
            Show the chart
          </button>
        </div>
      ) : hasPlaces ? (
        <Drawing {...props} visibleLines={visibleLines} height={height} isNear={isNear} />
      ) : (
        <p class={styles["empty"]} style={{ height: `${height}px` }}>
          {lines.length > 0 && visibleLines.length === 0
            ? "All lines are hidden"
            : !hasPoints
              ? (props.empty ?? "No data yet")
              : isLog
                ? "No value above 0, as a logarithmic scale needs"
                : "No values"}
        </p>
      )}
      {hasPoints && isTableOpen && (
        <div id={table}>
          <PointTable
            title={title}
            lines={visibleLines.filter(({ isDetail }) => !isDetail)}
            scope={scope}
            xName={xName}
            format={format}
            formatX={formatX}
          />
        </div>
      )}
    </figure>
  );
}

function formats({ format, formatX, isLogX, unit = "tens", unitX = "tens" }: PlotProps) {
  const inUnit = formatOf(unitX);
  return {
    format: format ?? formatOf(unit),
    formatX: formatX ?? (isLogX ? (x: number) => inUnit(fromLog(x)) : inUnit),
  };
}

/** What the chart shows now. */
function pictureOf(props: PlotProps, lines: readonly Line[]): Picture {
  const { title, scope, xName, isLog = false, isLogX = false, unit = "tens", unitX = "tens", marks = NO_MARKS } = props;
  const range = scope.range.peek() ?? [0, 1];
  const { format: formatValue } = formats(props);
  const ends = yRange(lines, range, { ...props, ...yChoice(scope, title) }, scope.zoom.peek() !== null);
  const { format, formatX } = props;
  return { title, xName, lines, range, yRange: ends, isLog, isLogX, unit, unitX, marks, format, formatX, formatValue };
}

/** Report the extent of a chart to its scope while the chart exists. */
function useExtent(scope: Scope, lines: readonly Line[]): void {
  const chart = useId();
  useEffect(() => report(scope, chart, xExtent(lines)), [scope, chart, lines]);
  useEffect(() => () => report(scope, chart, null), [scope, chart]);
}

type DrawingProps = PlotProps & { visibleLines: readonly Line[]; height: number; isNear: Signal<boolean> };

function Drawing({ visibleLines, ...props }: DrawingProps) {
  const { title, scope, xName, height } = props;
  const { format, formatX } = formats(props);
  const container = useCanvas(props, visibleLines);
  const spoken = useSignal("arrows move the cursor");
  const onKeyDown = (event: KeyboardEvent): void => {
    const x = cursorKeys(event, scope, visibleLines);
    if (x === undefined) return;
    event.preventDefault();
    if (x === null) spoken.value = "no cursor";
    else {
      const values = visibleLines
        .filter(({ isDetail }) => !isDetail)
        .map((line) => `${line.name} ${pointText(line, indexAt(line, x, null), format)}`);
      spoken.value = `${xName} ${formatX(x)}: ${values.join(", ")}`;
    }
  };
  // Signals: a moving cursor changes attributes without rendering.
  const [least, greatest, now] = useMemo(() => {
    const end = computed(() => scope.range.value?.[1] ?? 0);
    return [computed(() => scope.range.value?.[0] ?? 0), end, computed(() => scope.cursor.value ?? end.value)];
  }, [scope]);
  return (
    <div
      ref={container}
      class={styles["place"]}
      style={{ height: `${height}px` }}
      role="slider"
      tabIndex={0}
      aria-label={`Cursor of ${title}`}
      aria-valuemin={least}
      aria-valuemax={greatest}
      aria-valuenow={now}
      aria-valuetext={spoken}
      onKeyDown={onKeyDown}
    />
  );
}

/** The element with a canvas that shows these lines. */
function useCanvas(props: Omit<DrawingProps, "visibleLines">, lines: readonly Line[]) {
  const { title, scope, height, isNear, xName, format, formatX, yFrom, yTo, isShare } = props;
  const { isLog = false, isLogX = false, unit = "tens", unitX = "tens", marks = NO_MARKS } = props;
  const container = useRef<HTMLDivElement>(null);
  const canvas = useRef<Canvas>(undefined);
  const shape = useMemo(() => ({ isLog, isLogX, height, unit, unitX }), [isLog, isLogX, height, unit, unitX]);
  const content: PlotContent = useMemo(
    () => ({ title, lines, xName, format, formatX, marks, yFrom, yTo, isShare }),
    [title, lines, xName, format, formatX, marks, yFrom, yTo, isShare],
  );
  useEffect(() => {
    const made = new Canvas(container.current as HTMLDivElement, scope, shape, isNear);
    canvas.current = made;
    return () => made.destroy();
  }, [scope, shape, isNear]);
  useEffect(() => canvas.current?.show(content), [scope, shape, content]);
  useSignalEffect(() => {
    void theme.value;
    canvas.current?.redraw();
  });
  return container;
}
