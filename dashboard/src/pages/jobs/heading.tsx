// The heading of a column: a click sorts, a right click or Alt and ↓ opens its menu, its edge changes the width.

import { useRef } from "preact/hooks";
import { type Place, placeOf } from "../../parts/popup.tsx";
import type { Column } from "./columns.ts";
import styles from "./heading.module.css";
import tableStyles from "./table.module.css";
import { nextOrder, type Order } from "./view.ts";

interface Props {
  column: Column;
  /** Where it stays, if it is pinned. */
  left_px: number | undefined;
  order: Order;
  onOrder: (order: Order) => void;
  onMenu: (place: Place) => void;
  /** Null: the usual width. */
  onResize: (width_px: number | null) => void;
  onDragStart: () => void;
  onDrop: () => void;
}

const STEP_PX = 16;

export function Heading(props: Props) {
  const { column, left_px, order, onOrder, onMenu, onResize, onDragStart, onDrop } = props;
  const { title, sort, isFigure, hint } = column;
  const head = useRef<HTMLTableCellElement>(null);
  const dragFrom_px = useRef<number | null>(null);
  const shown_px = (): number => head.current?.offsetWidth ?? 0;
  const isSorted = order === sort || order === `-${sort}`;
  const direction = order.startsWith("-") ? "descending" : "ascending";
  const press = (event: KeyboardEvent): void => {
    const by = event.shiftKey ? { ArrowLeft: -STEP_PX, ArrowRight: STEP_PX }[event.key] : undefined;
    if (by !== undefined) onResize(shown_px() + by);
    else if (event.altKey && event.key === "ArrowDown") onMenu(placeOf(event));
    else return;
    event.preventDefault();
  };
  return (
    <th
      ref={head}
      scope="col"
      class={`${styles["heading"]} ${isFigure ? "figure" : ""} ${left_px === undefined ? "" : tableStyles["pinned"]}`}
      style={leftOf(left_px)}
      title={hint}
      aria-sort={isSorted ? direction : undefined}
      draggable
      onDragStart={(event) => (dragFrom_px.current === null ? onDragStart() : event.preventDefault())}
      onDragOver={(event) => event.preventDefault()}
      onDrop={onDrop}
      onContextMenu={(event) => onMenu(placeOf(event))}
    >
      <button
        type="button"
        aria-haspopup={sort === undefined ? "true" : undefined}
        aria-keyshortcuts="Alt+ArrowDown Shift+ArrowLeft Shift+ArrowRight"
        onClick={(event) => (sort === undefined ? onMenu(placeOf(event)) : onOrder(nextOrder(order, sort)))}
        onKeyDown={press}
      >
        {title}
        <span aria-hidden="true">{isSorted ? (direction === "ascending" ? " ↑" : " ↓") : ""}</span>
      </button>
      <span class={styles["more"]} aria-hidden="true" title="Menu" onClick={(event) => onMenu(placeOf(event))} />
      <span
        class={styles["edge"]}
        aria-hidden="true"
        title="Drag to change the width; a double click sets the usual one"
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          dragFrom_px.current = shown_px() - event.clientX;
        }}
        onPointerMove={(event) => dragFrom_px.current !== null && onResize(dragFrom_px.current + event.clientX)}
        onLostPointerCapture={() => {
          dragFrom_px.current = null;
        }}
        onDblClick={() => onResize(null)}
      />
    </th>
  );
}

export function leftOf(left_px: number | undefined): { left?: string } {
  return left_px === undefined ? {} : { left: `${left_px}px` };
}
