// Choose runs: search results, the newest jobs, or all jobs of a study. Shown in a dialog, and
// on the page itself while there is nothing to compare.

import { useEffect, useState } from "preact/hooks";
import { usePolled } from "../../api/polled.ts";
import type { Job, Listed, StudyLine } from "../../api/types.ts";
import { ago, countText } from "../../format.ts";
import { ProblemNotice, Waiting } from "../../parts/notice.tsx";
import { StatusBadge } from "../../parts/status.tsx";
import { pathWith } from "../../query.ts";
import { labelOf } from "./fields.ts";
import styles from "./picker.module.css";

const MOST_LISTED = 30;
const TYPING_MS = 250;
const ONCE = { every_s: Number.POSITIVE_INFINITY };

interface Props {
  /** The ids of the runs in the comparison. */
  chosenIds: readonly string[];
  study: string;
  onToggle: (id: string) => void;
  onStudy: (id: string) => void;
}

export function Picker({ chosenIds, study, onToggle, onStudy }: Props) {
  const [text, setText] = useState("");
  const search = useSettled(text.trim());
  return (
    <div class={styles["picker"]}>
      <label class={styles["search"]}>
        Search
        <input
          type="search"
          value={text}
          placeholder="Name, id, owner, model, dataset, label"
          maxLength={200}
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </label>
      <Studies search={search} study={study} onStudy={onStudy} />
      <Jobs search={search} chosenIds={chosenIds} onToggle={onToggle} />
    </div>
  );
}

/** The text, after a pause in typing. */
function useSettled(text: string): string {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), TYPING_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}

function Studies({ search, study, onStudy }: { search: string } & Pick<Props, "study" | "onStudy">) {
  const { data } = usePolled<Listed<StudyLine>>(pathWith("/v1/studies", { limit: 100 }), ONCE);
  const needle = search.toLowerCase();
  const matchingStudies = (data?.items ?? []).filter(
    ({ id, name, owner }) => needle === "" || [id, name, owner].some((text) => text.toLowerCase().includes(needle)),
  );
  if (matchingStudies.length === 0) return null;
  return (
    <section aria-label="Studies">
      <h3>Whole studies</h3>
      <ul class={styles["list"]}>
        {matchingStudies.slice(0, needle === "" ? 3 : MOST_LISTED).map((line) => (
          <li key={line.id}>
            <span class={styles["name"]}>
              {line.name} <span class="muted">{line.varied.map(labelOf).join(" × ")}</span>
            </span>
            <span class="muted">{countText(line.jobs, "job")}</span>
            <button
              type="button"
              aria-pressed={study === line.id}
              onClick={() => onStudy(study === line.id ? "" : line.id)}
            >
              {study === line.id ? "Added" : "Add all"}
              <span class="spoken"> of {line.name}</span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Jobs({ search, chosenIds, onToggle }: { search: string } & Pick<Props, "chosenIds" | "onToggle">) {
  const { data, problem } = usePolled<Listed<Job>>(pathWith("/v1/jobs", { search, limit: MOST_LISTED }), ONCE);
  return (
    <section aria-label="Jobs">
      <h3>{search === "" ? "Newest jobs" : "Jobs"}</h3>
      {data !== undefined && <ProblemNotice problem={problem} />}
      {data === undefined && <Waiting problem={problem} subject="jobs" />}
      {data?.items.length === 0 && <p class="muted">{search === "" ? "No jobs yet." : "No job matches."}</p>}
      <ul class={styles["list"]}>
        {data?.items.map((job) => (
          <li key={job.id}>
            <span class={styles["name"]}>
              {job.name}{" "}
              <span class="muted">
                {job.owner}, {ago(job.created_at)}
              </span>
            </span>
            <StatusBadge status={job.status} pausedAt={job.paused_at} />
            <button type="button" aria-pressed={chosenIds.includes(job.id)} onClick={() => onToggle(job.id)}>
              {chosenIds.includes(job.id) ? "Added" : "Add"}
              <span class="spoken"> {job.name}</span>
            </button>
          </li>
        ))}
      </ul>
      {data?.next_cursor != null && <p class="muted">There are more jobs: search to find them.</p>}
    </section>
  );
}
