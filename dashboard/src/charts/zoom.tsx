// The range in view of a scope's charts, and the buttons that show more of it.

import { type Scope, zoomBy } from "./scope.ts";
import { figureAt, logText, type Unit } from "./ticks.ts";
import styles from "./zoom.module.css";

const HELP =
  "Drag to zoom; double-click to show all. Ctrl and wheel, or two fingers, also zoom. Shift and drag, or a sideways wheel, pan. Keyboard: arrows, plus, minus, Escape.";

interface Props {
  scope: Scope;
  /** The unit of the x axis, as on the charts. */
  unitX: Unit;
  formatX?: ((x: number) => string) | undefined;
  isLogX?: boolean;
}

export function Zoom({ scope, unitX, formatX, isLogX = false }: Props) {
  const zoom = scope.zoom.value;
  if (zoom === null) {
    return (
      <span class={styles["hint"]} title={HELP}>
        Drag to zoom
      </span>
    );
  }
  const distance = (zoom[1] - zoom[0]) / 200;
  const figure = (x: number): string => formatX?.(x) ?? (isLogX ? logText : figureAt)(x, distance, unitX);
  return (
    <span class={styles["zoom"]}>
      <span>
        {figure(zoom[0])} to {figure(zoom[1])}
      </span>
      <button type="button" onClick={() => zoomBy(scope, 2, (zoom[0] + zoom[1]) / 2)}>
        Zoom out
      </button>
      <button
        type="button"
        onClick={() => {
          scope.zoom.value = null;
        }}
      >
        Show all
      </button>
    </span>
  );
}
