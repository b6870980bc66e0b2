// Shown if there are no jobs: how to submit one, how to clear the filters, or that all are archived.

import { usePolled } from "../../api/polled.ts";
import type { JobCount } from "../../api/types.ts";
import { number } from "../../format.ts";
import { withParams } from "../../query.ts";
import { query } from "../../url.ts";
import styles from "./page.module.css";
import { isFiltered, NO_FILTER, paramsOf, type View } from "./view.ts";

const EXAMPLE = "hora submit --dataset digits --batch-size 64 --learning-rate 0.001 --gpus 1";

export function NoJobs({ view, onChange }: { view: View; onChange: (change: Partial<View>) => void }) {
  const isNarrowed = isFiltered(view);
  const archived = usePolled<JobCount>(isNarrowed ? null : "/v1/jobs/count?archived=true", { every_s: 10 });
  if (isNarrowed)
    return (
      <section class={styles["nothing"]} role="status">
        <h2>No job matches</h2>
        <p class="muted">Clear the filters to see all jobs.</p>
        <button type="button" class="primary" onClick={() => onChange(NO_FILTER)}>
          Clear filters
        </button>
      </section>
    );
  if (archived.data === undefined && archived.problem === undefined) return null; // nobody knows yet
  if (archived.data?.jobs)
    return (
      <section class={styles["nothing"]} role="status">
        <h2>All jobs are archived</h2>
        <a class={styles["new"]} href={`/?${withParams(query.value, paramsOf({ archived: "all" }))}`}>
          Show {number(archived.data.jobs)} archived
        </a>
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
