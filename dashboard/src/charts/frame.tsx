// The frame of every chart of bars or points: the axes with their names.

import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import type { Cell } from "../csv.ts";
import { saveDrawing } from "./export/drawings.ts";
import type { Format } from "./export/files.ts";
import styles from "./frame.module.css";
import type { Axis } from "./points.ts";
import { Swatch } from "./swatch.tsx";
import { ChartTools } from "./tools.tsx";
import { useWidth } from "./width.ts";

/** Where the axes are, in pixels. */
export interface Room {
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
}

const LEFT = 58; // at least; more for long figures such as 1 min 10 s
export const LETTER = 6.5; // the width of a figure's letter
const RIGHT = 24; // for half of the axis's last figure
const TOP = 28;
const BOTTOM = 42;

export interface Entry {
  readonly name: string;
  readonly colour: string;
  readonly dash?: readonly number[];
}

interface Props<A extends Pick<Axis, "ticks">> {
  title: string;
  xName: string;
  yName: string;
  height: number;
  /** The entries of the legend. A single entry is not shown. */
  entries: readonly Entry[];
  axes: (room: Room) => { readonly x: A; readonly y: A };
  children: (x: A, y: A, room: Room) => ComponentChildren;
  /** The same figures as a table. */
  table: ComponentChildren;
  /** The exact figures for a file. The first row has the names of the columns. */
  cells: () => readonly (readonly Cell[])[];
}

export function Frame<A extends Pick<Axis, "ticks">>(props: Props<A>) {
  const { title, table } = props;
  const place = useRef<HTMLElement>(null);
  const save = (format: Format): void => {
    const svg = place.current?.querySelector(`.${styles["drawing"]} > svg`) as SVGSVGElement;
    void saveDrawing({ ...props, svg }, format);
  };
  return (
    <figure ref={place} class={styles["chart"]} aria-label={title}>
      <ChartTools title={title} onSave={save} large={(height) => <Drawing {...props} height={height} />} />
      <Drawing {...props} />
      {table}
    </figure>
  );
}

function Drawing<A extends Pick<Axis, "ticks">>(props: Props<A>) {
  const { title, xName, yName, height, entries, axes, children } = props;
  const container = useRef<HTMLDivElement>(null);
  const width = useWidth(container);
  const narrow: Room = { left: LEFT, right: Math.max(LEFT + 40, width - RIGHT), top: TOP, bottom: height - BOTTOM };
  const lengths = axes(narrow).y.ticks.map(({ text }) => text.length); // whatever `left` is
  const room: Room = { ...narrow, left: Math.max(LEFT, 10 + LETTER * Math.max(0, ...lengths)) };
  const { x, y } = axes(room);
  return (
    <>
      {entries.length > 1 && (
        <ul class={styles["legend"]}>
          {entries.map(({ name, colour, dash }) => (
            <li key={name}>
              <Swatch colour={colour} dash={dash} /> {name}
            </li>
          ))}
        </ul>
      )}
      <div ref={container} class={styles["drawing"]} style={{ minHeight: `${height}px` }}>
        {width > 0 && (
          <svg width={width} height={height} role="img" aria-label={`${title}: ${yName} over ${xName}`}>
            {y.ticks.map(({ at, text }) => (
              <g key={at}>
                <line x1={room.left} x2={room.right} y1={at} y2={at} class={styles["grid"]} />
                <text x={room.left - 6} y={at} dy="0.35em" text-anchor="end" class={styles["tick"]}>
                  {text}
                </text>
              </g>
            ))}
            <line x1={room.left} x2={room.right} y1={room.bottom} y2={room.bottom} class={styles["axis"]} />
            {x.ticks.map(({ at, text }) => (
              <text key={at} x={at} y={room.bottom + 17} text-anchor="middle" class={styles["tick"]}>
                {text}
              </text>
            ))}
            <text x={(room.left + room.right) / 2} y={height - 8} text-anchor="middle" class={styles["name"]}>
              {xName}
            </text>
            <text x={4} y={10} class={styles["name"]}>
              {yName}
            </text>
            {children(x, y, room)}
          </svg>
        )}
      </div>
    </>
  );
}

interface WhiskerProps {
  x: number;
  /** In pixels. */
  low: number;
  high: number;
  colour: string;
}

/** The interval of a figure, as a line with two ends. An end outside of the chart is not drawn. */
export function Whisker({ x, low, high, colour }: WhiskerProps) {
  const end = high > TOP ? `M${x - 4} ${high}h8` : "";
  return <path class={styles["whisker"]} stroke={colour} d={`M${x} ${low}V${high}M${x - 4} ${low}h8${end}`} />;
}
