// A chart of lines: title and legend above, the lines below, and a table of the same for who cannot see them.
//
// All charts of a `Scope` have one axis and one cursor. Drag to zoom, double click for all of it; Ctrl and wheel zoom,
// Shift and drag or a sideways wheel pan. With the keyboard: arrows move the cursor (with Shift they pan), + and - zoom,
// Esc or 0 shows all.

import { useSignalEffect } from "@preact/signals";
import { useEffect, useId, useMemo, useRef, useState } from "preact/hooks";
import { number } from "../format.ts";
import { theme } from "../theme.ts";
import { Canvas, type Mark } from "./canvas.ts";
import { cursorKeys } from "./keys.ts";
import { Legend } from "./legend.tsx";
import { indexUpTo, type Line, xExtent } from "./lines.ts";
import styles from "./plot.module.css";
import { report, type Scope } from "./scope.ts";
import { PointTable } from "./table.tsx";

export interface PlotProps {
  title: string;
  lines: readonly Line[];
  scope: Scope;
  /** What x is: "step", "epoch", "time". */
  xName: string;
  formatX?: (x: number) => string;
  format?: (y: number) => string;
  isLog?: boolean;
  /** The axis reaches at least over these. */
  yFrom?: number;
  yTo?: number;
  /** Vertical lines with a word: a restart, the best epoch. */
  marks?: readonly Mark[];
  height?: number;
  /** Whether the axis' own figures are shown below; of stacked charts the last one's suffice. */
  hasXAxis?: boolean;
  /** Keys of lines that are not shown, and what a click in the legend does. */
  hidden?: ReadonlySet<string>;
  onToggle?: (key: string) => void;
  /** What stands there while there are no points. */
  empty?: string;
}

const NONE: ReadonlySet<string> = new Set();

export function Plot(props: PlotProps) {
  const { title, lines, scope, xName, format = number, formatX = number, height = 200, hidden = NONE } = props;
  const key = useId();
  const place = useRef<HTMLDivElement>(null);
  const canvas = useRef<Canvas | undefined>(undefined);
  const [spoken, setSpoken] = useState("");
  const shown = useMemo(() => lines.filter((line) => !hidden.has(line.key)), [lines, hidden]);
  const hasPoints = shown.some((line) => line.xs.length > 0);

  useEffect(() => {
    report(scope, key, xExtent(shown));
    return () => report(scope, key, null);
  }, [scope, key, shown]);

  useEffect(() => {
    const element = place.current;
    if (element === null || !hasPoints) return;
    const made = new Canvas(element, scope, { isLog: props.isLog ?? false, hasXAxis: props.hasXAxis ?? true, height });
    canvas.current = made;
    return () => {
      canvas.current = undefined;
      made.destroy();
    };
  }, [scope, props.isLog, props.hasXAxis, height, hasPoints]);

  useEffect(() => {
    canvas.current?.show({
      lines: shown,
      format,
      formatX,
      marks: props.marks ?? [],
      yFrom: props.yFrom,
      yTo: props.yTo,
    });
  });
  useSignalEffect(() => {
    void theme.value;
    canvas.current?.redraw();
  });

  const onKeyDown = (event: KeyboardEvent): void => {
    const x = cursorKeys(event, scope, shown);
    if (x === undefined) return;
    event.preventDefault();
    setSpoken(x === null ? "" : `${xName} ${formatX(x)}: ${said(shown, x, format)}`);
  };

  return (
    <figure class={styles["plot"]} aria-label={title}>
      <figcaption class={styles["caption"]}>
        <span class={styles["title"]}>{title}</span>
        <Legend lines={lines} hidden={hidden} scope={scope} format={format} onToggle={props.onToggle} />
      </figcaption>
      {hasPoints ? (
        <div
          ref={place}
          class={styles["place"]}
          style={{ height }}
          role="slider"
          tabIndex={0}
          aria-label={`Cursor of ${title}`}
          aria-valuemin={scope.range.value?.[0] ?? 0}
          aria-valuemax={scope.range.value?.[1] ?? 0}
          aria-valuenow={scope.cursor.value ?? scope.range.value?.[1] ?? 0}
          aria-valuetext={spoken || "arrows move the cursor"}
          onKeyDown={onKeyDown}
        />
      ) : (
        <p class={styles["empty"]} style={{ height }}>
          {props.empty ?? "No data yet"}
        </p>
      )}
      {hasPoints && (
        <PointTable title={title} lines={shown} scope={scope} xName={xName} format={format} formatX={formatX} />
      )}
    </figure>
  );
}

function said(lines: readonly Line[], x: number, format: (y: number) => string): string {
  return lines.map(({ name, xs, ys }) => `${name} ${format(ys[indexUpTo(xs, x)] ?? Number.NaN)}`).join(", ");
}
