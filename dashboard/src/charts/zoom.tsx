// The range in view of a scope's charts, and the buttons that show more of it.

import { useKeyHelp } from "../parts/key_help.ts";
import { ROWS } from "./keys.ts";
import { type Scope, showAll, zoomBy } from "./scope.ts";
import { figureAt, logText, type Unit } from "./ticks.ts";
import styles from "./zoom.module.css";

const HELP =
  "Drag to zoom, sideways or up and down; double-click to show all. Ctrl and wheel, or two fingers, also zoom. Shift and drag, or a sideways wheel, pan. Keyboard: arrows, plus, minus, Escape.";

interface Props {
  scope: Scope;
  /** The unit of the x axis, as on the charts. */
  unitX: Unit;
  formatX?: ((x: number) => string) | undefined;
  isLogX?: boolean;
}

export function Zoom(props: Props) {
  const { isCropped } = props.scope;
  useKeyHelp("Charts", ROWS);
  return (
    <>
      <label class={styles["crop"]} title="The y axes have no room for values far outside of the others">
        <input
          type="checkbox"
          checked={isCropped.value}
          onChange={(event) => {
            isCropped.value = event.currentTarget.checked;
          }}
        />
        Without outliers
      </label>
      <InView {...props} />
    </>
  );
}

function InView({ scope, unitX, formatX, isLogX = false }: Props) {
  const zoom = scope.zoom.value;
  const all = (
    <button type="button" onClick={() => showAll(scope)}>
      Show all
    </button>
  );
  if (zoom === null && scope.cuts.value.size > 0) return <span class={styles["zoom"]}>{all}</span>;
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
      {all}
    </span>
  );
}
