// The origin of a form: the job that it clones, and the advice that it applies.

import { Notice } from "../../parts/notice.tsx";
import { idOf } from "./field.tsx";
import styles from "./page.module.css";
import type { Start } from "./start.ts";
import { wordsOf } from "./words.ts";

interface Props {
  start: Start;
  /** The number of the advice in the address; "" for none. */
  number: string;
}

export function Origin({ start: { job, advice, advised }, number }: Props) {
  if (job === undefined) return null;
  const link = (
    <a href={`/jobs/${job.id}`}>
      <bdi>{job.name}</bdi> <span class="mono">({job.id})</span>
    </a>
  );
  if (advice === undefined) {
    return (
      <Notice>
        <p>
          Cloned from {link}. Fields that differ from the defaults are marked as changed.{" "}
          <a href={`/studies/new?clone=${job.id}`}>Vary them in a study</a>
          {number !== "" && ` Advice ${number} is no longer given, so nothing was changed.`}
        </p>
      </Notice>
    );
  }
  return (
    <Notice kind="good" title={`Advice ${advice.number}: ${advice.what}`}>
      <div class={styles["advice"]}>
        <p>
          {advice.why} <b>{advice.gain.text}</b>
        </p>
        <p>
          Cloned from {link}, with{" "}
          {advised.map((path, index) => (
            <span key={path}>
              {index > 0 && ", "}
              <button type="button" class={styles["jump"]} onClick={() => showField(path)}>
                {wordsOf(path).label}
              </button>
            </span>
          ))}{" "}
          changed.
        </p>
      </div>
    </Notice>
  );
}

/** Unfold and focus a field. */
export function showField(path: string): void {
  const field = document.getElementById(idOf(path));
  const group = field?.closest("details");
  if (group) group.open = true;
  field?.focus();
  field?.scrollIntoView({ block: "center" });
}
