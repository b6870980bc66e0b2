// The figures of a chart as a folded table: for screen readers, and for exact values.

import styles from "./figures_table.module.css";

interface Props {
  title: string;
  columns: readonly string[];
  /** The first item of each is its header. */
  rows: readonly (readonly string[])[];
}

export function FiguresTable({ title, columns, rows }: Props) {
  return (
    <details class={styles["details"]}>
      <summary>Table of {title}</summary>
      <div class={styles["scroll"]} tabIndex={0} role="region" aria-label={`Figures of ${title}`}>
        <table>
          <thead>
            <tr>
              {columns.map((column, i) => (
                <th key={column} scope="col" class={i === 0 ? undefined : "figure"}>
                  {column}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map(([head, ...figures]) => (
              <tr key={head}>
                <th scope="row">{head}</th>
                {figures.map((figure, i) => (
                  <td key={columns[i + 1]} class="figure">
                    {figure}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}
