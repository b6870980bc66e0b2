// Beside the name of a job in lists: the values of its cell, which lead to its study, and that it has notes.

import styles from "./cell_of_study.module.css";
import type { Row } from "./row.ts";

export function CellOfStudy({ row }: { row: Row }) {
  if (row.study === null) return null;
  return (
    <a class={styles["cell"]} href={`/studies/${row.study}`} title={`${row.cell}: its place in the study`}>
      {row.cell}
    </a>
  );
}

export function NotesLink({ row }: { row: Row }) {
  return (
    <a class={styles["notes"]} href={`/jobs/${row.id}?tab=notes`} aria-label={`Notes on ${row.name} ${row.id}`}>
      notes
    </a>
  );
}
