// The heading of a column: a click sorts, with Shift by one more field; a right click or Alt and ↓ opens its menu; its edge
// changes the width.

import { useRef } from "preact/hooks";
import { type Place, placeOf } from "../../parts/popup.tsx";
import type { Column } from "./columns.ts";
import styles from "./heading.module.css";
import tableStyles from "./table.module.css";
import { keysOf, nextOrder, type Order, placeIn } from "./view.ts";

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
  const place = placeIn(order, sort);
  const keys = keysOf(order);
  const direction = keys[place]?.startsWith("-") ? "descending" : "ascending";
  const sortBy = (isThen: boolean): void => {
    if (sort !== undefined) onOrder(nextOrder(order, sort, isThen));
  };
  const press = (event: KeyboardEvent): void => {
    const by = event.shiftKey ? { ArrowLeft: -STEP_PX, ArrowRight: STEP_PX }[event.key] : undefined;
    if (by !== undefined) onResize(shown_px() + by);
    else if (event.altKey && event.key === "ArrowDown") onMenu(placeOf(event));
    else if (event.shiftKey && event.key === "Enter") sortBy(true);
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
      aria-sort={place === 0 ? direction : undefined}
      draggable
      onDragStart={(event) => (dragFrom_px.current === null ? onDragStart() : event.preventDefault())}
      onDragOver={(event) => event.preventDefault()}
      onDrop={onDrop}
      onContextMenu={(event) => onMenu(placeOf(event))}
    >
      <button
        type="button"
        aria-haspopup={sort === undefined ? "true" : undefined}
        aria-keyshortcuts="Alt+ArrowDown Shift+Enter Shift+ArrowLeft Shift+ArrowRight"
        onClick={(event) => (sort === undefined ? onMenu(placeOf(event)) : sortBy(event.shiftKey))}
        onKeyDown={press}
      >
        <span class={styles["title"]}>{title}</span>
        <span aria-hidden="true" class={styles["order"]}>
          {place >= 0 && (direction === "ascending" ? " ↑" : " ↓")}
          {place >= 0 && keys.length > 1 && place + 1}
        </span>
        {place > 0 && (
          <span class="spoken">
            , {direction}, {place + 1}
          </span>
        )}
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
