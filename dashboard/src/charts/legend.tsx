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
  if (lines.length > MANY) return null;
  const cursor = scope.cursor.value;
  return (
    <ul class={styles["legend"]}>
      {lines.map((line) => {
        const inside = (
          <>
            <Swatch colour={line.colour} dash={line.dash} /> {line.name}{" "}
            <output class={styles["value"]}>{format(valueAt(line, cursor))}</output>
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

/** The value of the point nearest to the cursor; the newest one without a cursor. */
export function valueAt({ xs, ys }: Line, cursor: number | null): number {
  return ys[cursor === null ? ys.length - 1 : indexNearest(xs, cursor)] ?? Number.NaN;
}
