// The choice of the table's columns: those of every job, and those of the metrics that the loaded jobs have.

import styles from "./column_menu.module.css";
import { COLUMNS, type ColumnId, metricColumns } from "./columns.ts";
import { Menu } from "./menu.tsx";
import type { Row } from "./row.ts";
import { choose, columnIds, isChosen } from "./use_columns.ts";
import { metricOf } from "./view.ts";

interface Props {
  rows: readonly Row[];
}

export function ColumnMenu({ rows }: Props) {
  const shownIds = columnIds.value;
  const toggle = (id: ColumnId): void =>
    choose(shownIds.includes(id) ? shownIds.filter((other) => other !== id) : [...shownIds, id]);
  return (
    <Menu title="Columns" side="right">
      <fieldset class={styles["columns"]}>
        <legend class="spoken">Columns</legend>
        {COLUMNS.filter(({ id }) => id !== "name").map(({ id, title }) => (
          <label key={id}>
            <input type="checkbox" checked={shownIds.includes(id)} onChange={() => toggle(id)} />
            {title}
          </label>
        ))}
      </fieldset>
      <MetricColumns rows={rows} shownIds={shownIds} toggle={toggle} />
      <button type="button" disabled={!isChosen.value} onClick={() => choose(null)}>
        Fit the columns to the page
      </button>
    </Menu>
  );
}

interface MetricColumnsProps extends Props {
  shownIds: readonly ColumnId[];
  toggle: (id: ColumnId) => void;
}

/** The columns for the metrics of the loaded jobs. */
function MetricColumns({ rows, shownIds, toggle }: MetricColumnsProps) {
  const ids = metricColumns(rows, shownIds);
  if (ids.length === 0) return null;
  return (
    <fieldset class={styles["columns"]}>
      <legend>Best values</legend>
      {ids.map((id) => (
        <label key={id}>
          <input type="checkbox" checked={shownIds.includes(id)} onChange={() => toggle(id)} />
          {metricOf(id)}
        </label>
      ))}
    </fieldset>
  );
}
