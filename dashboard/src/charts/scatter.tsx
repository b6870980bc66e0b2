// A point for each run, at its values on two axes, which are numbers or texts. Click a point to keep it highlighted.

import { type AxisScale, type AxisValue, axisScale, type Tick } from "./axis_scale.ts";
import { FiguresTable } from "./figures_table.tsx";
import { Frame, LETTER } from "./frame.tsx";
import styles from "./marks.module.css";
import { cut, type ParallelAxis, type ParallelLine } from "./parallel.tsx";

export interface ScatterAxis extends ParallelAxis {
  readonly format: (value: AxisValue) => string;
}

interface Props {
  title: string;
  x: ScatterAxis;
  y: ScatterAxis;
  points: readonly Omit<ParallelLine, "dash">[];
  /** Keys of points that are drawn faintly. */
  faded: ReadonlySet<string>;
  pointed: readonly string[];
  onPoint: (key: string | null) => void;
  /** Gets the point that was clicked. */
  onPick: (key: string) => void;
}

const SIDE = 12; // between an axis and the first point on it

export function Scatter({ title, x, y, points, faded, pointed, onPoint, onPick }: Props) {
  const shown = points
    .map((point, i) => ({ ...point, x: x.values[i] ?? null, y: y.values[i] ?? null }))
    .filter((point) => point.x !== null && point.y !== null);
  const isOnTop = ({ key }: { key: string }): number => (pointed.includes(key) ? 2 : faded.has(key) ? 0 : 1);
  const pointing = (key: string) => ({
    onPointerEnter: () => onPoint(key),
    onPointerLeave: () => onPoint(null),
    onClick: () => onPick(key), // with the keyboard, the list of runs has the focus
  });
  return (
    <Frame
      title={title}
      xName={x.label}
      yName={y.label}
      height={300}
      entries={[]}
      axes={({ left, right, top, bottom }) => ({
        x: placed(axisScale(x.values, x.isLog, [right - SIDE, left + SIDE]), (a, b) => (LETTER * (a + b)) / 2 + 6),
        y: placed(axisScale(y.values, y.isLog, [top + SIDE, bottom - SIDE]), () => 0),
      })}
      table={
        <FiguresTable
          title={title}
          columns={["run", x.label, y.label]}
          rows={shown.map((point) => [point.name, x.format(point.x), y.format(point.y)])}
        />
      }
      cells={() => [
        ["run", "id", x.label, y.label],
        ...shown.map((point) => [point.name, point.key, point.x, point.y]),
      ]}
    >
      {(across, up) =>
        shown
          .toSorted((a, b) => isOnTop(a) - isOnTop(b))
          .map((point) => (
            <circle
              key={point.key}
              cx={across.at(point.x) ?? 0}
              cy={up.at(point.y) ?? 0}
              r={pointed.includes(point.key) ? 8 : 5}
              class={`${styles["point"]} ${faded.has(point.key) ? styles["faded"] : ""}`}
              fill={point.colour}
              {...pointing(point.key)}
            >
              <title>{`${point.name}: ${x.label} ${x.format(point.x)}, ${y.label} ${y.format(point.y)}`}</title>
            </circle>
          ))
      }
    </Frame>
  );
}

/** The scale with its ticks as a frame draws them, without those nearer to each other than their texts allow. */
function placed({ at, ticks }: AxisScale, room: (letters: number, others: number) => number) {
  const kept: { at: number; text: string }[] = [];
  for (const { y, text } of ticks as readonly Tick[]) {
    const tick = { at: y, text: cut(text, 16) };
    if (kept.every((other) => Math.abs(other.at - y) >= room(other.text.length, tick.text.length))) kept.push(tick);
  }
  return { at, ticks: kept };
}
