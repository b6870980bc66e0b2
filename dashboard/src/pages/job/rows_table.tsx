// A table of a few rows that scrolls if it is too wide. The first column names the row.

import type { ComponentChildren } from "preact";
import styles from "./rows_table.module.css";

export interface Column<T> {
  readonly name: string;
  readonly cell: (row: T) => ComponentChildren;
  readonly isFigure?: boolean;
  readonly title?: (row: T) => string;
  readonly background?: (row: T) => string | undefined;
}

interface Props<T> {
  label: string;
  columns: readonly Column<T>[];
  rows: readonly T[];
  keyOf: (row: T) => string | number;
  /** Aligned with the text of a padded part of the page. */
  isInset?: boolean;
}

export function RowsTable<T>({ label, columns, rows, keyOf, isInset = false }: Props<T>) {
  const alignment = ({ isFigure }: Column<T>): string | undefined => (isFigure ? "figure" : undefined);
  return (
    <div
      class={`${styles["scroller"]} ${isInset ? styles["inset"] : ""}`}
      tabIndex={0}
      role="region"
      aria-label={label}
    >
      <table>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.name} scope="col" class={alignment(column)}>
                {column.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)}>
              {columns.map((column, index) => {
                const Cell = index === 0 ? "th" : "td";
                return (
                  <Cell
                    key={column.name}
                    scope={index === 0 ? "row" : undefined}
                    class={alignment(column)}
                    title={column.title?.(row)}
                    style={{ background: column.background?.(row) }}
                  >
                    {column.cell(row)}
                  </Cell>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
