// Figures in groups, with their intervals: bars from zero, or points if the distance from zero means nothing.

import { FiguresTable } from "./figures_table.tsx";
import { type Entry, Frame, LETTER, type Room, Whisker } from "./frame.tsx";
import styles from "./marks.module.css";
import { type Axis, type Estimate, reachOf, valueAxis } from "./points.ts";
import { bands } from "./scales.ts";

export interface Series extends Entry {
  /** By group; null if there is no figure. */
  readonly values: readonly (Estimate | null)[];
}

interface Props {
  title: string;
  xName: string;
  yName: string;
  groups: readonly string[];
  series: readonly Series[];
  isFromZero: boolean;
  /** The greatest possible figure: 1 for shares. */
  maximum?: number | undefined;
  format: (value: number) => string;
  /** Writes a figure with its interval. */
  formatEstimate: (estimate: Estimate) => string;
  height?: number;
}

export function Bars(props: Props) {
  const { title, xName, yName, groups, series, isFromZero, maximum, format, formatEstimate, height = 260 } = props;
  return (
    <Frame
      title={title}
      xName={xName}
      yName={yName}
      height={height}
      entries={series}
      axes={({ left, right, top, bottom }) => {
        const places = bands(groups.length, [left, right], GAP);
        const every = Math.ceil(
          (LETTER * Math.max(...groups.map(({ length }) => length + 2)) * groups.length) / (right - left),
        );
        const ticks = groups
          .map((text, i) => ({ at: places.left(i) + places.width / 2, text }))
          .filter((_, i) => i % every === 0); // the others have no room
        return {
          x: { at: Number, ticks },
          y: valueAxis(reachOf(estimatesOf(series)), { isFromZero, maximum }, [bottom, top], format),
        };
      }}
      table={
        <FiguresTable
          title={title}
          columns={[xName, ...series.map(({ name }) => name || yName)]}
          rows={groups.map((group, i) => [
            group,
            ...series.map(({ values }) => estimateText(values[i], formatEstimate)),
          ])}
        />
      }
      cells={() => [
        [xName, "series", yName, "low", "high"],
        ...series.flatMap(({ name, values }) =>
          values.map((each, i) => [groups[i] ?? "", name, each?.value ?? null, each?.low ?? null, each?.high ?? null]),
        ),
      ]}
    >
      {(_, y, room) => <BarGroups {...props} y={y} room={room} />}
    </Frame>
  );
}

const GAP = 0.24; // between groups, as a share of the room of each
const FEW = 12; // with at most so many bars, each has its figure above it

/** The figures of all series; groups without a figure are left out. */
function estimatesOf(series: readonly Series[]): Estimate[] {
  return series.flatMap(({ values }) => values.filter((value) => value !== null));
}

function estimateText(estimate: Estimate | null | undefined, formatEstimate: (estimate: Estimate) => string): string {
  return estimate == null ? "–" : formatEstimate(estimate);
}

interface BarGroupsProps extends Props {
  y: Axis;
  room: Room;
}

/** The bars of each group, side by side. */
function BarGroups({ xName, groups, series, isFromZero, format, formatEstimate, y, room }: BarGroupsProps) {
  const groupBands = bands(groups.length, [room.left, room.right], GAP);
  const within = bands(series.length, [0, groupBands.width], GAP / 2);
  const hasLabels = estimatesOf(series).length <= FEW;
  return (
    <>
      {groups.map((group, i) =>
        series.map(({ name, colour, values }, j) => {
          const estimate = values[i];
          if (estimate == null) return null;
          const left = groupBands.left(i) + within.left(j);
          return (
            <Bar
              key={`${group} ${name}`}
              estimate={estimate}
              title={`${group} ${xName}${name === "" ? "" : `, ${name}`}: ${formatEstimate(estimate)}`}
              label={hasLabels ? format(estimate.value) : null}
              colour={colour}
              box={{ left, width: within.width, bottom: isFromZero ? room.bottom : null, y }}
            />
          );
        }),
      )}
    </>
  );
}

interface BarProps {
  estimate: Estimate;
  title: string;
  label: string | null;
  colour: string;
  box: { left: number; width: number; bottom: number | null; y: Axis };
}

function Bar({ estimate: { value, low, high }, title, label, colour, box }: BarProps) {
  const { left, width, bottom, y } = box;
  const middle = left + width / 2;
  const top = y.at(value);
  const bar = Math.min(width, 44);
  const paint = `var(--${colour})`;
  return (
    <g>
      <title>{title}</title>
      {bottom === null ? (
        <circle cx={middle} cy={top} r={4.5} fill={paint} />
      ) : (
        <rect
          x={middle - bar / 2}
          y={top}
          width={bar}
          height={Math.max(0, bottom - top)}
          rx={2}
          fill={paint}
          class={styles["bar"]}
        />
      )}
      {low !== null && high !== null && (
        <Whisker
          x={middle}
          low={y.at(Math.max(0, low))}
          high={y.at(high)}
          colour={bottom === null ? paint : "var(--text)"}
        />
      )}
      {label !== null && (
        <text x={middle} y={y.at(Math.max(value, high ?? value)) - 5} text-anchor="middle" class={styles["label"]}>
          {label}
        </text>
      )}
    </g>
  );
}
