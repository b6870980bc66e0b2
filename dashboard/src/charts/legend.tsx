// The legend: each line with its value at the cursor, or its last value in view, and its range in view.

import { computed, type ReadonlySignal } from "@preact/signals";
import { useMemo, useRef } from "preact/hooks";
import styles from "./legend.module.css";
import { indexAt, type Line, pointText, type Range, yExtent } from "./lines.ts";
import { Swatch } from "./swatch.tsx";

interface Props {
  lines: readonly Line[];
  hidden: ReadonlySet<string>;
  cursor: ReadonlySignal<number | null>;
  /** The range of the axis in view. */
  range: ReadonlySignal<Range | null>;
  format: (y: number) => string;
  onToggle?: ((key: string) => void) | undefined;
  /** The key of the line that the pointer is at. */
  pointed?: string | null | undefined;
}

const MANY = 12; // with more lines, the legend shows only their range, and the line in focus
const FEW = 6; // lines with room for their ranges

export function Legend(props: Props) {
  const { lines, hidden, onToggle } = props;
  if (lines.length > MANY) return <Summary {...props} />;
  return (
    <ul class={styles["legend"]}>
      {lines.map((line) => {
        const inside = <Inside {...props} line={line} hasRange={lines.length <= FEW} />;
        return (
          <li key={line.key}>
            {onToggle === undefined ? (
              <span class={styles["entry"]}>{inside}</span>
            ) : (
              <button
                type="button"
                class={styles["entry"]}
                aria-pressed={!hidden.has(line.key)}
                onClick={() => onToggle(line.key)}
              >
                {inside}
              </button>
            )}
          </li>
        );
      })}
    </ul>
  );
}

type LineProps = Pick<Props, "cursor" | "range" | "format"> & { line: Line };

function Inside({ line, hasRange, ...props }: LineProps & { hasRange: boolean }) {
  return (
    <>
      <Swatch colour={line.colour} dash={line.dash} /> {line.name} <Value line={line} {...props} />{" "}
      {hasRange && line.spread === undefined && <InView {...props} lines={[line]} />}
    </>
  );
}

/** A value that follows the cursor without rendering. */
function Value({ line, cursor, range, format }: LineProps) {
  const text = useMemo(
    () => computed(() => pointText(line, indexAt(line, cursor.value, range.value), format)),
    [line, cursor, range, format],
  );
  return (
    <span class={styles["value"]} data-wide={line.counts !== undefined || undefined}>
      {text}
    </span>
  );
}

/** From the least to the greatest value in view. */
function InView({ lines, range, format }: Pick<Props, "lines" | "range" | "format">) {
  const text = useMemo(
    () =>
      computed(() => {
        const extent = range.value && yExtent(lines, range.value);
        return extent === null ? "" : `${format(extent[0])} to ${format(extent[1])}`;
      }),
    [lines, range, format],
  );
  return (
    <span class={styles["range"]} title="The least and the greatest value in view">
      {text}
    </span>
  );
}

/** Of many lines, the range in view, and the line that the pointer is at. */
function Summary({ lines, pointed, ...props }: Props) {
  const line = lines.find(({ key }) => key === pointed);
  return (
    <span class={styles["summary"]}>
      {line ? (
        <Inside line={line} hasRange={false} {...props} />
      ) : (
        <>
          {lines.length} lines <InView lines={lines} {...props} />
        </>
      )}
      <AtCursor lines={lines} {...props} pointed={pointed} />
    </span>
  );
}

const MOST = 36; // lines that fit over a chart

/** The values of many lines at the cursor, the greatest first, beside it on the chart that has the pointer or the focus. */
function AtCursor({ lines, hidden, cursor, range, format, pointed }: Omit<Props, "onToggle">) {
  const root = useRef<HTMLSpanElement>(null);
  const x = cursor.value;
  const isHere = x !== null && root.current?.closest("figure")?.matches(":hover, :focus-within");
  if (!isHere) return <span ref={root} />;
  const values = lines
    .filter(({ key }) => !hidden.has(key))
    .map((line) => ({ line, index: indexAt(line, x, null) }))
    .filter(({ line, index }) => Number.isFinite(line.ys[index]))
    .sort((a, b) => (b.line.ys[b.index] as number) - (a.line.ys[a.index] as number));
  const [from, to] = range.value ?? [0, 1];
  return (
    <span
      ref={root}
      aria-hidden="true"
      class={styles["values"]}
      style={x - from > (to - from) / 2 ? { left: "66px" } : { right: "30px" }}
    >
      {values.slice(0, MOST).map(({ line, index }) => (
        <span key={line.key} class={line.key === pointed ? styles["pointed"] : undefined}>
          <Swatch colour={line.colour} dash={line.dash} /> {line.name} <b>{format(line.ys[index] as number)}</b>
        </span>
      ))}
      {values.length > MOST && <span>{values.length - MOST} more below</span>}
    </span>
  );
}
