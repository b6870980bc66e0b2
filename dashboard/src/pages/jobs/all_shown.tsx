// What can be done with all jobs of the view, loaded or not: compare them, and save them as a file.

import styles from "./all_shown.module.css";
import { ExportButton } from "./export_button.tsx";
import { comparePath, type View } from "./view.ts";

export function AllShown({ view }: { view: View }) {
  return (
    <span class={styles["all"]}>
      <a href={comparePath(view)} title="Compare the jobs of this view">
        Compare all
      </a>
      <ExportButton view={view} />
    </span>
  );
}
