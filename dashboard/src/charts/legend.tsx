// The lines of a chart by name, with their values where the cursor is, or else their newest ones.

import styles from "./legend.module.css";
import { indexNearest, type Line } from "./lines.ts";
import type { Scope } from "./scope.ts";
import { Swatch } from "./swatch.tsx";

interface Props {
  lines: readonly Line[];
  hidden: ReadonlySet<string>;
  scope: Scope;
  format: (y: number) => string;
  onToggle?: ((key: string) => void) | undefined;
}

const MANY = 12; // more lines than these are told apart in a table beside the chart

export function Legend({ lines, hidden, scope, format, onToggle }: Props) {
  if (lines.length > MANY) return <Spread {...{ lines, scope, format }} />;
  return (
    <ul class={styles["legend"]}>
      {lines.map((line) => {
        const inside = (
          <>
            <Swatch colour={line.colour} dash={line.dash} /> {line.name} <Value {...{ line, scope, format }} />
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

interface ValueProps {
  line: Line;
  scope: Scope;
  format: (y: number) => string;
}

/** A value that follows the cursor without anything else being rendered anew. */
function Value({ line, scope, format }: ValueProps) {
  return <span class={styles["value"]}>{format(valueAt(line, scope.cursor.value))}</span>;
}

/** Of many lines, from where to where they lie. */
function Spread({ lines, scope, format }: Pick<Props, "lines" | "scope" | "format">) {
  const cursor = scope.cursor.value;
  const values = lines.map((line) => valueAt(line, cursor)).filter(Number.isFinite);
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

/** The value of the point nearest to the cursor; the newest one without a cursor. */
export function valueAt({ xs, ys }: Line, cursor: number | null): number {
  return ys[cursor === null ? ys.length - 1 : indexNearest(xs, cursor)] ?? Number.NaN;
}
