// The jobs as a table. Only rows in view are rendered.

import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { type InView, Space } from "../../parts/window.tsx";
import { type CellProps, cellOf } from "./cells.tsx";
import { type Choice, type Column, type ColumnId, moved } from "./columns.ts";
import type { Curve } from "./curves.ts";
import { placesOf } from "./pinning.ts";
import type { Row } from "./row.ts";
import { extentOf } from "./selection.ts";
import styles from "./table.module.css";
import type { Marks } from "./use_marks.ts";
import { nextOrder, type Order } from "./view.ts";

export const ROW_PX = 42;
export const HEADER_PX = 34;
const SELECT_PX = 38;

type Columns = readonly (Column & { readonly id: ColumnId })[];

interface Props {
  rows: readonly Row[];
  /** The number of all jobs; null while it is unknown. */
  total: number | null;
  inView: InView;
  columns: Columns;
  choice: Choice;
  onChoose: (choice: Choice) => void;
  order: Order;
  metric: string;
  curves: ReadonlyMap<string, Curve>;
  marks: Marks;
  onOrder: (order: Order) => void;
  onLabel: (label: string) => void;
}

export function Table(props: Props) {
  const { rows, total, inView, columns, choice, onChoose, order, metric, curves, marks, onOrder, onLabel } = props;
  const { first, end } = inView;
  const width = columns.reduce((sum, { width_px }) => sum + width_px, SELECT_PX);
  const places = useMemo(() => placesOf(columns, choice.pinned, SELECT_PX), [columns, choice.pinned]);
  const isNamePinned = choice.pinned.includes("name");
  const [dragged, setDragged] = useState<ColumnId>();
  return (
    <table class={styles["table"]} style={{ minWidth: `${width}px` }} aria-rowcount={total === null ? -1 : total + 1}>
      <colgroup>
        <col style={{ width: `${SELECT_PX}px` }} />
        {columns.map(({ id, width_px }) => (
          <col key={id} style={id === "name" && !isNamePinned ? {} : { width: `${width_px}px` }} />
        ))}
        {isNamePinned && <col />}
      </colgroup>
      <thead>
        <tr style={{ height: `${HEADER_PX}px` }} aria-rowindex={1}>
          <th scope="col" class={`${styles["select"]} ${places.size > 0 ? styles["pinned"] : ""}`}>
            <SelectAll rows={rows} marks={marks} />
          </th>
          {columns.map((column, index) => (
            <Header
              key={column.id}
              column={column}
              left_px={places.get(column.id)}
              order={order}
              onOrder={onOrder}
              onDragStart={() => setDragged(column.id)}
              onDrop={() => dragged !== undefined && onChoose(moved(choice, dragged, index))}
            />
          ))}
          {isNamePinned && <td />}
        </tr>
      </thead>
      <Space px={first * ROW_PX} />
      <tbody>
        {rows.slice(first, end).map((row, index) => (
          <TableRow
            key={row.id}
            row={row}
            index={first + index}
            columns={columns}
            places={places}
            metric={metric}
            curve={curves.get(row.id)}
            isSelected={marks.selection.has(row.id)}
            isActive={marks.activeId === row.id}
            toggle={marks.toggle}
            onLabel={onLabel}
          />
        ))}
      </tbody>
      <Space px={(rows.length - end) * ROW_PX} />
    </table>
  );
}

function SelectAll({ rows, marks }: Pick<Props, "rows" | "marks">) {
  const extent = extentOf(marks.selection, rows);
  return (
    <input
      type="checkbox"
      aria-label="Select all shown jobs"
      checked={extent === "all"}
      indeterminate={extent === "some"}
      onChange={marks.toggleAll}
    />
  );
}

interface HeaderProps extends Pick<Props, "order" | "onOrder"> {
  column: Column;
  /** Where it stays, if it is pinned. */
  left_px: number | undefined;
  onDragStart: () => void;
  onDrop: () => void;
}

const UNSORTABLE = "The service cannot sort by it";

function Header({ column, left_px, order, onOrder, onDragStart, onDrop }: HeaderProps) {
  const { title, sort, isFigure, hint } = column;
  const shared = {
    class: `${isFigure ? "figure" : ""} ${left_px === undefined ? "" : styles["pinned"]}`,
    style: leftOf(left_px),
    draggable: true,
    onDragStart,
    onDrop,
    onDragOver: (event: DragEvent) => event.preventDefault(),
  };
  if (sort === undefined)
    return (
      <th scope="col" {...shared} title={`${hint ?? title}. ${UNSORTABLE}`}>
        {title}
      </th>
    );
  const isSorted = order === sort || order === `-${sort}`;
  const direction = order.startsWith("-") ? "descending" : "ascending";
  return (
    <th scope="col" {...shared} aria-sort={isSorted ? direction : undefined} title={hint}>
      <button type="button" onClick={() => onOrder(nextOrder(order, sort))}>
        {title}
        <span aria-hidden="true">{isSorted ? (direction === "ascending" ? " ↑" : " ↓") : ""}</span>
      </button>
    </th>
  );
}

function leftOf(left_px: number | undefined): { left?: string } {
  return left_px === undefined ? {} : { left: `${left_px}px` };
}

interface RowProps extends CellProps {
  index: number;
  columns: Columns;
  places: ReadonlyMap<ColumnId, number>;
  isSelected: boolean;
  isActive: boolean;
  toggle: Marks["toggle"];
}

/** Rendered again only when its job changes, as the table renders with every step of a scroll. */
function TableRow(props: RowProps): ComponentChildren {
  const { row, index, columns, places, metric, curve, isSelected, isActive, toggle, onLabel } = props;
  return useMemo(
    () => (
      <tr
        data-job={row.id}
        class={isActive ? styles["active"] : undefined}
        aria-rowindex={index + 2}
        aria-selected={isSelected}
      >
        <td class={`${styles["select"]} ${places.size > 0 ? styles["pinned"] : ""}`}>
          <input
            type="checkbox"
            aria-label={`Select ${row.name} ${row.id}`}
            checked={isSelected}
            onClick={(event) => toggle(row, event.shiftKey)}
          />
        </td>
        {columns.map(({ id, isFigure }) => (
          <td
            key={id}
            class={`${isFigure ? "figure" : ""} ${places.has(id) ? styles["pinned"] : ""}`}
            style={leftOf(places.get(id))}
          >
            {cellOf(id, { row, metric, curve, onLabel })}
          </td>
        ))}
        {places.has("name") && <td />}
      </tr>
    ),
    [row, index, columns, places, metric, curve, isSelected, isActive, toggle, onLabel],
  );
}
