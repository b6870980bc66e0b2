// Box plots: the quartiles of each group, whiskers, and outliers as points. A group of few points shows all of them.

import { axisScale } from "./axis_scale.ts";
import { FiguresTable } from "./figures_table.tsx";
import { type Entry, Frame, LETTER, type Room, Whisker } from "./frame.tsx";
import styles from "./marks.module.css";
import { cut } from "./parallel.tsx";
import type { Axis } from "./points.ts";
import { type Box, boxOf } from "./quartiles.ts";
import { bands } from "./scales.ts";

interface Point {
  readonly key: string;
  readonly name: string;
  readonly value: number;
}

export interface BoxGroup extends Entry {
  readonly key: string;
  readonly points: readonly Point[];
}

interface Props {
  title: string;
  xName: string;
  yName: string;
  isLog: boolean;
  groups: readonly BoxGroup[];
  format: (value: number) => string;
  /** The keys of the points that the pointer is at, anywhere on the page. */
  pointed: readonly string[];
  onPoint: (key: string | null) => void;
  /** Gets the point that was clicked. */
  onPick: (key: string) => void;
}

const GAP = 0.3; // between groups, as a share of the room of each
const SIDE = 22; // between an end of the axis and the first point; below it, the number of points
const FEW = 5; // points that make a box

const COLUMNS = ["n", "low whisker", "lower quartile", "median", "upper quartile", "high whisker"];

export function BoxChart(props: Props) {
  const { title, xName, yName, isLog, groups, format } = props;
  const boxes = groups.map(({ points }) => (points.length === 0 ? null : boxOf(points.map(({ value }) => value))));
  const rows = groups.flatMap(({ name, points }, i) => {
    const box = boxes[i];
    if (!box) return [];
    const { low, lower, median, upper, high } = box;
    const outside = points.filter((point) => isOutside(point, box)).map((point) => point.name);
    return [{ name, count: points.length, figures: [low, lower, median, upper, high], outside: outside.join(", ") }];
  });
  return (
    <Frame
      title={title}
      xName={xName}
      yName={yName}
      height={300}
      entries={[]}
      axes={({ left, right, top, bottom }) => {
        const places = bands(groups.length, [left, right], GAP);
        const values = groups.flatMap(({ points }) => points.map(({ value }) => value));
        const scale = axisScale(values, isLog, [top + SIDE, bottom - SIDE]);
        const letters = Math.max(2, Math.floor((right - left) / groups.length / LETTER) - 1);
        return {
          x: {
            at: Number,
            ticks: groups.map(({ name }, i) => ({ at: places.left(i) + places.width / 2, text: cut(name, letters) })),
          },
          y: {
            at: (value: number) => scale.at(value) ?? 0,
            ticks: scale.ticks.map(({ y, text }) => ({ at: y, text })),
          },
        };
      }}
      table={
        <FiguresTable
          title={title}
          columns={[xName, ...COLUMNS, "outliers"]}
          rows={rows.map(({ name, count, figures, outside }) => [name, `${count}`, ...figures.map(format), outside])}
        />
      }
      cells={() => [
        [xName, ...COLUMNS, "outliers"],
        ...rows.map(({ name, count, figures, outside }) => [name, count, ...figures, outside]),
      ]}
    >
      {(_, y, room) =>
        groups.map((group, i) => <Drawn {...props} key={group.key} box={boxes[i]} {...{ i, y, room }} />)
      }
    </Frame>
  );
}

function isOutside({ value }: Point, { low, high }: Box): boolean {
  return value < low || value > high;
}

interface DrawnProps extends Props {
  i: number;
  box: Box | null | undefined;
  y: Axis;
  room: Room;
}

/** A group. While the pointer is at it, or at one of its points, it shows all points. */
function Drawn({ groups, i, box, y, room, format, pointed, onPoint, onPick }: DrawnProps) {
  const { key, name, colour, dash, points } = groups[i] as BoxGroup;
  if (!box) return null;
  const places = bands(groups.length, [room.left, room.right], GAP);
  const width = Math.min(places.width, 70);
  const middle = places.left(i) + places.width / 2;
  const paint = `var(--${colour})`;
  const isBox = points.length >= FEW;
  const isOpen = points.some((point) => pointed.includes(point.key));
  const inBox = (point: Point): boolean => isBox && !isOutside(point, box);
  const { low, lower, median, upper, high } = box;
  const pointing = (run: string) => ({
    onPointerEnter: () => onPoint(run),
    onPointerLeave: () => onPoint(key),
    onClick: () => onPick(run), // with the keyboard, the list of runs has the focus
  });
  const texts = [`median ${format(median)}`, `quartiles ${format(lower)} to ${format(upper)}`, `n ${points.length}`];
  return (
    <g onPointerEnter={() => onPoint(key)} onPointerLeave={() => onPoint(null)}>
      {isBox && (
        <g>
          <title>{`${name}: ${texts.join(", ")}`}</title>
          <Whisker x={middle} low={y.at(low)} high={y.at(high)} colour={paint} />
          <rect
            x={middle - width / 2}
            y={y.at(upper)}
            width={width}
            height={y.at(lower) - y.at(upper)}
            fill={`color-mix(in srgb, ${paint} 18%, var(--surface))`}
            stroke={paint}
            stroke-width={1.5}
            stroke-dasharray={dash?.join(" ")}
          />
          <path stroke={paint} stroke-width={3} d={`M${middle - width / 2} ${y.at(median)}h${width}`} />
        </g>
      )}
      {points
        // Points that come and go are side by side. The others do not move, so that they stay at the pointer.
        .map((point, i) => ({ ...point, x: middle + (inBox(point) ? ((i % 5) - 2) * (width / 7) : 0) }))
        .filter((point) => isOpen || !inBox(point))
        .map((point) => (
          <circle
            key={point.key}
            cx={point.x}
            cy={y.at(point.value)}
            r={pointed.length === 1 && pointed[0] === point.key ? 7 : 4.5}
            class={styles["point"]}
            fill={paint}
            {...pointing(point.key)}
          >
            <title>{`${point.name}: ${format(point.value)}`}</title>
          </circle>
        ))}
      <text x={middle} y={room.bottom - 4} text-anchor="middle" class={styles["label"]}>
        n {points.length}
      </text>
    </g>
  );
}
