// Shown if there are no jobs: how to submit one, or how to clear the filters.

import styles from "./page.module.css";
import { NO_FILTER, type View } from "./view.ts";

const EXAMPLE = "hora submit --dataset digits --batch-size 64 --learning-rate 0.001 --gpus 1";

export function NoJobs({ isFiltered, onChange }: { isFiltered: boolean; onChange: (change: Partial<View>) => void }) {
  if (isFiltered)
    return (
      <section class={styles["nothing"]} role="status">
        <h2>No job matches</h2>
        <p class="muted">Clear the filters to see all jobs.</p>
        <button type="button" class="primary" onClick={() => onChange(NO_FILTER)}>
          Clear filters
        </button>
      </section>
    );
  return (
    <section class={styles["nothing"]} role="status">
      <h2>No jobs yet</h2>
      <p class="muted">
        A job trains a model on a dataset, on as many GPUs as you choose. New jobs appear here at once.
      </p>
      <a class={styles["new"]} href="/new">
        New job
      </a>
      <p class="muted">or from a terminal</p>
      <pre>{EXAMPLE}</pre>
    </section>
  );
}
