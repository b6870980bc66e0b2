// The jobs as a table. Only rows in view are rendered.

import type { ComponentChildren } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";
import { type InView, Space } from "../../parts/window.tsx";
import { type CellProps, cellOf } from "./cells.tsx";
import { type Choice, type Column, type ColumnId, moved, resized } from "./columns.ts";
import type { Curve } from "./curves.ts";
import { Heading, leftOf } from "./heading.tsx";
import { HeadingMenu, type OpenMenu } from "./heading_menu.tsx";
import { type Extent, extentsOf, heatOf } from "./heat.ts";
import { placesOf } from "./pinning.ts";
import type { Row } from "./row.ts";
import { extentOf } from "./selection.ts";
import styles from "./table.module.css";
import { isCompact, row_px } from "./use_columns.ts";
import type { Marks } from "./use_marks.ts";
import type { Order } from "./view.ts";

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
  onFilter: (field: string) => void;
  onLabel: (label: string) => void;
}

export function Table(props: Props) {
  const { rows, total, inView, columns, choice, onChoose, order, metric, curves, marks, onOrder, onFilter, onLabel } =
    props;
  const { pinned, widths, heat } = choice;
  const { first, end } = inView;
  const sized = useMemo(
    () => columns.map((column) => ({ ...column, width_px: widths?.[column.id] ?? column.width_px })),
    [columns, widths],
  );
  const width = sized.reduce((sum, { width_px }) => sum + width_px, SELECT_PX);
  const places = useMemo(() => placesOf(sized, pinned, SELECT_PX), [sized, pinned]);
  const extents = useExtents(rows, heat, metric);
  // The name takes the rest of the width, or an empty column if the name has a width of its own.
  const hasRest = pinned.includes("name") || widths?.["name"] !== undefined;
  const [dragged, setDragged] = useState<ColumnId>();
  const [menu, setMenu] = useState<OpenMenu>();
  const height_px = row_px.value;
  const table = useRef<HTMLTableElement>(null);
  const resize = (id: ColumnId, width_px: number | null): void => {
    // The name keeps its width from now on: else it would take or give what another column gets.
    const name = table.current?.rows[0]?.cells[1 + columns.findIndex((column) => column.id === "name")];
    const fixed = hasRest || name === undefined ? choice : resized(choice, "name", name.offsetWidth);
    onChoose(resized(fixed, id, width_px));
  };
  return (
    <>
      <table
        ref={table}
        class={styles["table"]}
        data-compact={isCompact.value || undefined}
        style={{ minWidth: `${width}px`, "--row-height": `${height_px}px` }}
        aria-rowcount={total === null ? -1 : total + 1}
      >
        <colgroup>
          <col style={{ width: `${SELECT_PX}px` }} />
          {sized.map(({ id, width_px }) => (
            <col key={id} style={id === "name" && !hasRest ? {} : { width: `${width_px}px` }} />
          ))}
          {hasRest && <col />}
        </colgroup>
        <thead>
          <tr style={{ height: `${HEADER_PX}px` }} aria-rowindex={1}>
            <th scope="col" class={`${styles["select"]} ${places.size > 0 ? styles["pinned"] : ""}`}>
              <SelectAll rows={rows} marks={marks} />
            </th>
            {sized.map((column, index) => (
              <Heading
                key={column.id}
                column={column}
                left_px={places.get(column.id)}
                order={order}
                onOrder={onOrder}
                onMenu={(place) => setMenu({ column, place })}
                onResize={(width_px) => resize(column.id, width_px)}
                onDragStart={() => setDragged(column.id)}
                onDrop={() => dragged !== undefined && onChoose(moved(choice, dragged, index))}
              />
            ))}
            {hasRest && <td />}
          </tr>
        </thead>
        <Space px={first * height_px} />
        <tbody>
          {rows.slice(first, end).map((row, index) => (
            <TableRow
              key={row.id}
              row={row}
              index={first + index}
              columns={columns}
              places={places}
              hasRest={hasRest}
              extents={extents}
              metric={metric}
              curve={curves.get(row.id)}
              isSelected={marks.selection.has(row.id)}
              isActive={marks.activeId === row.id}
              toggle={marks.toggle}
              onMenu={marks.openMenu}
              onLabel={onLabel}
            />
          ))}
        </tbody>
        <Space px={(rows.length - end) * height_px} />
      </table>
      {menu !== undefined && (
        <HeadingMenu
          {...menu}
          choice={choice}
          order={order}
          isNumeric={extentsOf(rows, [menu.column.id], metric)[menu.column.id] !== undefined}
          onChoose={onChoose}
          onOrder={onOrder}
          onFilter={onFilter}
          onClose={() => setMenu(undefined)}
        />
      )}
    </>
  );
}

/** Of the columns with a heat map. The same object while the values are the same, so that rows are not rendered again. */
function useExtents(rows: readonly Row[], heat: Choice["heat"], metric: string): Record<string, Extent> {
  const text = useMemo(() => JSON.stringify(extentsOf(rows, heat ?? [], metric)), [rows, heat, metric]);
  return useMemo(() => JSON.parse(text), [text]);
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

interface RowProps extends CellProps {
  index: number;
  columns: Columns;
  places: ReadonlyMap<ColumnId, number>;
  hasRest: boolean;
  extents: Readonly<Record<string, Extent>>;
  isSelected: boolean;
  isActive: boolean;
  toggle: Marks["toggle"];
}

/** Rendered again only when its job changes, as the table renders with every step of a scroll. */
function TableRow(props: RowProps): ComponentChildren {
  const { row, index, columns, places, hasRest, extents, metric, curve, isSelected, isActive, toggle } = props;
  const { onMenu, onLabel } = props;
  return useMemo(
    () => (
      <tr
        data-job={row.id}
        class={isActive ? styles["active"] : undefined}
        aria-rowindex={index + 2}
        aria-selected={isSelected}
        onContextMenu={(event) => onMenu(row, event)}
      >
        <td class={`${styles["select"]} ${places.size > 0 ? styles["pinned"] : ""}`}>
          <input
            type="checkbox"
            aria-label={`Select ${row.name} ${row.id}`}
            checked={isSelected}
            onClick={(event) => toggle(row, event.shiftKey)}
          />
        </td>
        {columns.map(({ id, isFigure }) => {
          const extent = extents[id];
          return (
            <td
              key={id}
              class={`${isFigure ? "figure" : ""} ${places.has(id) ? styles["pinned"] : ""}`}
              style={{ ...leftOf(places.get(id)), background: extent && heatOf(row, id, metric, extent) }}
              data-heat={extent && ""}
            >
              {cellOf(id, { row, metric, curve, onMenu, onLabel })}
            </td>
          );
        })}
        {hasRest && <td />}
      </tr>
    ),
    [row, index, columns, places, hasRest, extents, metric, curve, isSelected, isActive, toggle, onMenu, onLabel],
  );
}
