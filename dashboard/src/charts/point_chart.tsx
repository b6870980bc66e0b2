// Points with intervals: lines of speed-up over GPUs beside the ideal line, or points in the plane.

import { FiguresTable } from "./figures_table.tsx";
import { type Entry, Frame, Whisker } from "./frame.tsx";
import styles from "./marks.module.css";
import { type Axis, type Estimate, reachOf, valueAxis } from "./points.ts";

export interface Point extends Estimate {
  readonly x: number;
  /** A name, if the name of its line is not enough. */
  readonly label: string;
}

export interface PointLine extends Entry {
  /** Ascending by x. */
  readonly points: readonly Point[];
}

interface Props {
  title: string;
  xName: string;
  yName: string;
  lines: readonly PointLine[];
  /** Points of a line are joined. */
  isJoined: boolean;
  /** A dashed line beside them. */
  ideal?: { readonly name: string; readonly points: readonly (readonly [x: number, y: number])[] };
  /** The ticks of the x axis; by default, round numbers. */
  xTicks?: readonly number[];
  isFromZero: boolean;
  /** The greatest possible figure: 1 for shares. */
  maximum?: number | undefined;
  format: (value: number) => string;
  formatX: (value: number) => string;
  formatEstimate: (estimate: Estimate) => string;
  height?: number;
}

export function PointChart(props: Props) {
  const { title, xName, yName, lines, ideal, format, formatX, formatEstimate, height = 260 } = props;
  const points = lines.flatMap(({ name, points }) => points.map((point) => ({ name, point })));
  const ends = (ideal?.points ?? []).map(([x, value]) => ({ x, value, low: null, high: null }));
  const reach = reachOf([...points.map(({ point }) => point), ...ends]);
  const xs = reachOf(
    [...points.map(({ point }) => point), ...ends].map(({ x }) => ({ value: x, low: null, high: null })),
  );
  const entries: Entry[] = [...lines, ...(ideal ? [{ name: ideal.name, colour: "muted", dash: IDEAL }] : [])];
  return (
    <Frame
      title={title}
      xName={xName}
      yName={yName}
      height={height}
      entries={entries}
      axes={({ left, right, top, bottom }) => {
        const x = valueAxis(xs, { isFromZero: false }, [left, right], formatX);
        const ticks = props.xTicks?.map((value) => ({ at: x.at(value), text: formatX(value) }));
        return {
          x: ticks ? { at: x.at, ticks } : x,
          y: valueAxis(reach, { isFromZero: props.isFromZero, maximum: props.maximum }, [bottom, top], format),
        };
      }}
      table={
        <FiguresTable
          title={title}
          columns={["", xName, yName]}
          rows={points.map(({ name, point }) => [
            [name, point.label].filter(Boolean).join(" "),
            formatX(point.x),
            formatEstimate(point),
          ])}
        />
      }
      cells={() => [
        ["line", "point", xName, yName, "low", "high"],
        ...points.map(({ name, point }) => [name, point.label, point.x, point.value, point.low, point.high]),
      ]}
    >
      {(x, y) => (
        <>
          {ideal && <Joined points={ideal.points} x={x} y={y} colour="muted" dash={IDEAL} />}
          {lines.map((line, i) => (
            <LinePoints
              key={line.name}
              line={line}
              shiftPx={props.isJoined ? aside(i, lines.length) : 0}
              isJoined={props.isJoined}
              x={x}
              y={y}
              formatEstimate={formatEstimate}
            />
          ))}
        </>
      )}
    </Frame>
  );
}

const IDEAL = [5, 4];
const ASIDE_PX = 6;

/** Lines have points at the same x. They are moved a little aside, so that all intervals are visible. */
function aside(place: number, count: number): number {
  return (place - (count - 1) / 2) * Math.min(ASIDE_PX, 36 / count);
}

interface LinePointsProps {
  line: PointLine;
  shiftPx: number;
  isJoined: boolean;
  x: Axis;
  y: Axis;
  formatEstimate: (estimate: Estimate) => string;
}

/** The points of a line with their intervals, joined or not. */
function LinePoints({ line, shiftPx, isJoined, x, y, formatEstimate }: LinePointsProps) {
  return (
    <g transform={`translate(${shiftPx} 0)`}>
      {isJoined && (
        <Joined
          points={line.points.map((point) => [point.x, point.value])}
          x={x}
          y={y}
          colour={line.colour}
          dash={line.dash ?? []}
        />
      )}
      {line.points.map((point) => (
        <Dot
          key={point.label}
          point={point}
          x={x}
          y={y}
          colour={line.colour}
          title={`${point.label}: ${formatEstimate(point)}`}
        />
      ))}
    </g>
  );
}

interface JoinedProps {
  points: readonly (readonly [number, number])[];
  x: Axis;
  y: Axis;
  colour: string;
  dash: readonly number[];
}

function Joined({ points, x, y, colour, dash }: JoinedProps) {
  return (
    <polyline
      class={styles["line"]}
      points={points.map(([left, top]) => `${x.at(left)},${y.at(top)}`).join(" ")}
      stroke={`var(--${colour})`}
      stroke-dasharray={dash.join(" ")}
    />
  );
}

function Dot({ point, x, y, colour, title }: { point: Point; x: Axis; y: Axis; colour: string; title: string }) {
  const paint = `var(--${colour})`;
  const { low, high } = point;
  return (
    <g>
      <title>{title}</title>
      {low !== null && high !== null && (
        <Whisker x={x.at(point.x)} low={y.at(Math.max(0, low))} high={y.at(high)} colour={paint} />
      )}
      <circle cx={x.at(point.x)} cy={y.at(point.value)} r={4.5} fill={paint} />
    </g>
  );
}
