// Horizontal bars from zero, one for each run or group. Click a bar to keep it highlighted.

import { FiguresTable } from "./figures_table.tsx";
import { Frame, LETTER } from "./frame.tsx";
import styles from "./marks.module.css";
import { cut } from "./parallel.tsx";
import { valueAxis } from "./points.ts";
import { bands } from "./scales.ts";

export interface BarRow {
  readonly key: string;
  readonly name: string;
  readonly colour: string;
  readonly value: number;
}

interface Props {
  title: string;
  xName: string;
  /** What a bar is of, such as a run. */
  rowName: string;
  rows: readonly BarRow[];
  format: (value: number) => string;
  /** The keys of the bars that the pointer is at, anywhere on the page. */
  pointed: readonly string[];
  onPoint: (key: string | null) => void;
  /** Gets the bar that was clicked. */
  onPick: (key: string) => void;
}

const ROW = 22; // pixels
const AXES = 70; // the height of what is above and below the bars
const GAP = 0.25;
const LONGEST = 36; // letters of a name
const FIGURE = 8; // letters of a figure beside its bar

export function BarRows({ title, xName, rowName, rows, format, pointed, onPoint, onPick }: Props) {
  const values = rows.map(({ value }) => value);
  const isPointedAt = ({ key }: BarRow): boolean => pointed.includes(key);
  const isFaint = (row: BarRow): boolean => rows.some(isPointedAt) && !isPointedAt(row);
  const pointing = (key: string) => ({
    onPointerEnter: () => onPoint(key),
    onPointerLeave: () => onPoint(null),
    onClick: () => onPick(key), // with the keyboard, the list of runs has the focus
  });
  return (
    <Frame
      title={title}
      xName={xName}
      yName={rowName}
      height={AXES + ROW * rows.length}
      entries={[]}
      axes={({ left, right, top, bottom }) => {
        const places = bands(rows.length, [top, bottom], GAP);
        const letters = Math.min(LONGEST, Math.floor((right - left) / 3 / LETTER));
        const ticks = rows.map(({ name }, i) => ({ at: places.left(i) + places.width / 2, text: cut(name, letters) }));
        const reach = [Math.min(...values), Math.max(...values)] as const;
        const x = valueAxis(reach, { isFromZero: true }, [left, right - FIGURE * LETTER], format);
        return { x, y: { at: Number, ticks } };
      }}
      table={
        <FiguresTable
          title={title}
          columns={[rowName, xName]}
          rows={rows.map(({ name, value }) => [name, format(value)])}
        />
      }
      cells={() => [[rowName, "id", xName], ...rows.map(({ name, key, value }) => [name, key, value])]}
    >
      {(x, _, { top, bottom }) => {
        const places = bands(rows.length, [top, bottom], GAP);
        return rows.map((row, i) => {
          const { key, name, colour, value } = row;
          const [from, to] = [Math.min(x.at(0), x.at(value)), Math.max(x.at(0), x.at(value))];
          return (
            <g key={key} class={styles["row"]} {...pointing(key)}>
              <title>{`${name}: ${format(value)}`}</title>
              <rect
                x={from}
                y={places.left(i)}
                width={Math.max(1, to - from)}
                height={places.width}
                rx={2}
                fill={`var(--${colour})`}
                class={isFaint(row) ? styles["faint"] : styles["bar"]}
              />
              <text x={to + 5} y={places.left(i) + places.width / 2} dy="0.35em" class={styles["label"]}>
                {format(value)}
              </text>
            </g>
          );
        });
      }}
    </Frame>
  );
}
