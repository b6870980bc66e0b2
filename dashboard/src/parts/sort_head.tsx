// A column header that sorts the table by a click, and shows the order.

import styles from "./sort_head.module.css";

interface Props {
  label: string;
  title?: string | undefined;
  /** How the table is sorted by this column. */
  sorted: "ascending" | "descending" | "none";
  onSort: () => void;
}

const SIGNS = { ascending: " ↑", descending: " ↓", none: "" } as const;

export function SortHead({ label, title, sorted, onSort }: Props) {
  return (
    <th scope="col" class="figure" aria-sort={sorted} title={title}>
      <button type="button" class={styles["sort"]} onClick={onSort}>
        {label}
        <span aria-hidden="true">{SIGNS[sorted]}</span>
      </button>
    </th>
  );
}
