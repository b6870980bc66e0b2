// The legend: each line with its value at the cursor, or its newest value.

import { computed, type ReadonlySignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import styles from "./legend.module.css";
import { type Line, valueAt } from "./lines.ts";
import { Swatch } from "./swatch.tsx";

interface Props {
  lines: readonly Line[];
  hidden: ReadonlySet<string>;
  cursor: ReadonlySignal<number | null>;
  format: (y: number) => string;
  onToggle?: ((key: string) => void) | undefined;
}

const MANY = 12; // with more lines, the legend shows only their range

export function Legend({ lines, hidden, cursor, format, onToggle }: Props) {
  if (lines.length > MANY) return <Spread {...{ lines, cursor, format }} />;
  return (
    <ul class={styles["legend"]}>
      {lines.map((line) => {
        const inside = (
          <>
            <Swatch colour={line.colour} dash={line.dash} /> {line.name} <Value {...{ line, cursor, format }} />
          </>
        );
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

type ValueProps = Pick<Props, "cursor" | "format"> & { line: Line };

/** A value that follows the cursor without rendering. */
function Value({ line, cursor, format }: ValueProps) {
  const text = useMemo(() => computed(() => format(valueAt(line, cursor.value))), [line, cursor, format]);
  return <span class={styles["value"]}>{text}</span>;
}

/** The range of many lines. */
function Spread({ lines, cursor, format }: Pick<Props, "lines" | "cursor" | "format">) {
  const values = lines.map((line) => valueAt(line, cursor.value)).filter(Number.isFinite);
  return (
    <span class={styles["entry"]}>
      {lines.length} lines
      {values.length > 0 && (
        <span class={styles["value"]}>
          {format(values.reduce((a, b) => Math.min(a, b)))} to {format(values.reduce((a, b) => Math.max(a, b)))}
        </span>
      )}
    </span>
  );
}
