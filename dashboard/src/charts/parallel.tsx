// Parallel coordinates: an axis for each field or result of runs, and a line for each run. Drag along an axis
// to select a range; click on it to clear the range. The buttons above an axis change its scale, flip it, and move it.

import { useMemo, useRef } from "preact/hooks";
import { type AxisScale, type AxisValue, axisScale, type Brush } from "./axis_scale.ts";
import { saveDrawing } from "./export/drawings.ts";
import type { Format } from "./export/files.ts";
import type { Entry } from "./frame.tsx";
import styles from "./parallel.module.css";
import { ChartTools } from "./tools.tsx";
import { useWidth } from "./width.ts";

export interface ParallelAxis {
  readonly key: string;
  readonly label: string;
  readonly isLog: boolean;
  /** The least value is on top. */
  readonly isFlipped?: boolean;
  /** By line. */
  readonly values: readonly AxisValue[];
}

export interface ParallelLine {
  readonly key: string;
  readonly name: string;
  /** As CSS. */
  readonly colour: string;
  readonly dash: readonly number[];
}

interface Props {
  title: string;
  axes: readonly ParallelAxis[];
  lines: readonly ParallelLine[];
  /** The legend of a picture. */
  entries: readonly Entry[];
  /** Keys of lines that are drawn faintly. */
  faded: ReadonlySet<string>;
  brushes: ReadonlyMap<string, Brush>;
  /** `isDone` is true when the pointer is lifted; until then the brush still changes. */
  onBrush: (key: string, brush: Brush | null, isDone: boolean) => void;
  onScale: (key: string, isLog: boolean) => void;
  onFlip: (key: string) => void;
  /** Change places with the axis to the left. */
  onMove: (key: string) => void;
  /** The keys of the lines that the pointer is at, anywhere on the page. */
  pointed: readonly string[];
  onPoint: (key: string | null) => void;
  height?: number;
}

const TOP = 26; // below the names of the axes
const BELOW = 34; // the end of the axes, from below
const MISSING = 12; // the position of missing values, from below
const AXIS_PX = 118; // the least room of an axis; the chart scrolls if the axes do not fit
const SIDE = 64;

export function ParallelChart(props: Props) {
  const { title, axes, lines, entries } = props;
  const place = useRef<HTMLDivElement>(null);
  const cells = () => [
    ["run", "id", ...axes.map(({ label }) => label)],
    ...lines.map(({ name, key }, i) => [name, key, ...axes.map(({ values }) => values[i] ?? null)]),
  ];
  const save = (format: Format): void => {
    const svg = place.current?.querySelector(`.${styles["place"]} > svg`) as SVGSVGElement;
    void saveDrawing({ title, svg, entries, cells }, format);
  };
  return (
    <div ref={place}>
      <ChartTools title={title} onSave={save} large={(height) => <Drawing {...props} height={height} />} />
      <Drawing {...props} />
    </div>
  );
}

function Drawing(props: Props) {
  const { title, axes, lines, brushes, height = 320 } = props;
  const container = useRef<HTMLDivElement>(null);
  const width = Math.max(useWidth(container), 2 * SIDE + (axes.length - 1) * AXIS_PX);
  const scales = useMemo(
    () =>
      axes.map(({ values, isLog, isFlipped }) =>
        axisScale(values, isLog, isFlipped ? [height - BELOW, TOP] : [TOP, height - BELOW]),
      ),
    [axes, height],
  );
  const left = (index: number): number =>
    axes.length === 1 ? width / 2 : SIDE + (index * (width - 2 * SIDE)) / (axes.length - 1);
  const paths = useMemo(
    () =>
      lines.map((_, line) =>
        pathOf(axes.map((axis, i) => [left(i), scales[i]?.at(axis.values[line] ?? null) ?? height - MISSING])),
      ),
    [lines, axes, scales, width],
  );
  // Made again only when lines or axes change, so that pointing at a line does not redraw hundreds.
  const lineElements = useMemo(
    () => inOrder(lines, props.faded).map((i) => drawLine(lines[i] as ParallelLine, paths[i] as string, props)),
    [lines, paths, props.faded],
  );
  const pointedIndexes = lines.flatMap(({ key }, i) => (props.pointed.includes(key) ? [i] : []));
  return (
    <div class={styles["scroll"]} tabIndex={0} role="region" aria-label={title}>
      <div ref={container} class={styles["place"]}>
        <div class={styles["heads"]} style={{ width: `${width}px` }}>
          {axes.map((axis, i) => (
            <Head key={axis.key} {...props} axis={axis} kind={scales[i]?.kind} left={left(i)} isFirst={i === 0} />
          ))}
        </div>
        <svg width={width} height={height} role="img" aria-label={`${lines.length} runs on ${axes.length} axes`}>
          <g
            class={pointedIndexes.length === 0 ? undefined : styles["back"]}
            onPointerLeave={() => props.onPoint(null)}
          >
            {lineElements}
          </g>
          {pointedIndexes.map((i) => (
            <path key={i} d={paths[i]} class={styles["pointed"]} stroke={lines[i]?.colour} />
          ))}
          {axes.map((axis, i) => (
            <Axis
              key={axis.key}
              axis={axis}
              scale={scales[i] as AxisScale}
              left={left(i)}
              height={height}
              brush={brushes.get(axis.key)}
              hasMissing={axis.values.includes(null)}
              onBrush={props.onBrush}
            />
          ))}
        </svg>
      </div>
    </div>
  );
}

/** The order of drawing: faint lines first. */
function inOrder(lines: readonly ParallelLine[], faded: ReadonlySet<string>): number[] {
  const isBack = (i: number): number => Number(faded.has(lines[i]?.key ?? ""));
  return lines.map((_, i) => i).sort((a, b) => isBack(b) - isBack(a));
}

/** A line, and a wider invisible one for the pointer. */
function drawLine({ key, name, colour, dash }: ParallelLine, path: string, { faded, onPoint }: Props) {
  return (
    <g key={key} onPointerEnter={() => onPoint(key)}>
      <path
        d={path}
        class={`${styles["line"]} ${faded.has(key) ? styles["faded"] : ""}`}
        stroke={colour}
        stroke-dasharray={dash.join(" ")}
      />
      <path d={path} class={styles["near"]}>
        <title>{name}</title>
      </path>
    </g>
  );
}

function pathOf(points: readonly (readonly [number, number])[]): string {
  return points.map(([x, y], i) => `${i === 0 ? "M" : "L"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
}

interface HeadProps extends Pick<Props, "onScale" | "onFlip" | "onMove"> {
  axis: ParallelAxis;
  kind: AxisScale["kind"] | undefined;
  left: number;
  isFirst: boolean;
}

function Head({ axis, kind, left, isFirst, onScale, onFlip, onMove }: HeadProps) {
  const button = (text: string, title: string, onClick: (key: string) => void) => (
    <button
      type="button"
      class={styles["scale"]}
      aria-label={`${title}: ${axis.label}`}
      title={title}
      onClick={() => onClick(axis.key)}
    >
      {text}
    </button>
  );
  return (
    <div class={styles["head"]} style={{ left: `${left}px` }}>
      {!isFirst && button("◂", "Move to the left", onMove)}
      {kind !== "text" && (
        <button
          type="button"
          class={styles["scale"]}
          aria-label={`Scale of ${axis.label}: ${kind}`}
          title="Linear or logarithmic"
          onClick={() => onScale(axis.key, kind !== "log")}
        >
          {kind}
        </button>
      )}
      {button(axis.isFlipped ? "▾" : "▴", "Turn upside down", onFlip)}
    </div>
  );
}

function Axis(props: {
  axis: ParallelAxis;
  scale: AxisScale;
  left: number;
  height: number;
  brush: Brush | undefined;
  hasMissing: boolean;
  onBrush: Props["onBrush"];
}) {
  const { axis, scale, left, height, brush } = props;
  const stretch = brush === undefined ? null : scale.stretch(brush);
  const grip = useBrushing(axis.key, scale, props.onBrush);
  return (
    <g transform={`translate(${left.toFixed(1)} 0)`}>
      <text y={12} text-anchor="middle" class={styles["label"]}>
        <title>{axis.label}</title>
        {cut(axis.label, 18)}
      </text>
      <line y1={TOP} y2={height - BELOW} class={styles["axis"]} />
      {scale.ticks.map(({ y, text }) => (
        <text key={text} x={6} y={y} dy="0.35em" class={styles["tick"]}>
          {cut(text, 16)}
        </text>
      ))}
      {props.hasMissing && (
        <text x={6} y={height - MISSING} dy="0.35em" class={styles["tick"]}>
          none
        </text>
      )}
      {stretch !== null && (
        <rect x={-6} width={12} y={stretch[0]} height={Math.max(3, stretch[1] - stretch[0])} class={styles["brush"]} />
      )}
      <rect x={-14} width={28} y={TOP - 8} height={height - BELOW - TOP + 16} class={styles["grip"]} {...grip}>
        <title>Drag to select the runs in this range; click to clear the range</title>
      </rect>
    </g>
  );
}

/** A text of at most so many letters. */
export function cut(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

const CLICK_PX = 3;

/** Pointer events on an axis. */
function useBrushing(key: string, scale: AxisScale, onBrush: Props["onBrush"]) {
  const startY = useRef<number | null>(null);
  const placeOf = ({ clientY, currentTarget }: PointerEvent): number =>
    clientY - ((currentTarget as SVGElement).ownerSVGElement?.getBoundingClientRect().top ?? 0);
  return {
    onPointerDown: (event: PointerEvent) => {
      (event.currentTarget as SVGElement).setPointerCapture(event.pointerId);
      startY.current = placeOf(event);
      event.preventDefault();
    },
    onPointerMove: (event: PointerEvent) => {
      if (startY.current === null || Math.abs(placeOf(event) - startY.current) < CLICK_PX) return;
      onBrush(key, scale.between(startY.current, placeOf(event)), false);
    },
    onPointerUp: (event: PointerEvent) => {
      if (startY.current === null) return;
      const [start, end] = [startY.current, placeOf(event)];
      startY.current = null;
      onBrush(key, Math.abs(end - start) < CLICK_PX ? null : scale.between(start, end), true);
    },
  };
}
