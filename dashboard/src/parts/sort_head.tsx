// The head of a column that sorts a table when it is clicked, and says how it is sorted.

import styles from "./sort_head.module.css";

interface Props {
  label: string;
  title?: string | undefined;
  /** Whether the table is sorted by it, and which way. */
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
