// The star of a job: a button for those who may change the job, a sign for others.

import { useEffect, useState } from "preact/hooks";
import { call, Problem } from "../api/client.ts";
import { usePolled } from "../api/polled.ts";
import type { Job, Me } from "../api/types.ts";
import { mayChange } from "../rights.ts";
import styles from "./star.module.css";

type Starred = Pick<Job, "id" | "name" | "owner" | "project" | "revision"> & { readonly starred: boolean };

export function Star({ job }: { job: Starred }) {
  const me = usePolled<Me>("/v1/me", { every_s: Number.POSITIVE_INFINITY }).data;
  const [chosen, setChosen] = useState<boolean | null>(null); // until the job is read again
  const [refusal, setRefusal] = useState<string>();
  useEffect(() => setChosen(null), [job.id, job.revision]);
  const isStarred = chosen ?? job.starred;
  if (!mayChange(me, job)) {
    return isStarred ? (
      <span class={styles["star"]} role="img" aria-label="Starred" title="Starred">
        ★
      </span>
    ) : null;
  }

  async function toggle(): Promise<void> {
    setChosen(!isStarred);
    try {
      await call("PATCH", `/v1/jobs/${job.id}`, { body: { starred: !isStarred } });
      setRefusal(undefined);
    } catch (error) {
      setChosen(null);
      setRefusal(error instanceof Problem ? error.detail || error.title : String(error));
    }
  }

  return (
    <button
      type="button"
      class={`${styles["star"]} ${styles["button"]} ${isStarred ? "" : styles["off"]}`}
      aria-pressed={isStarred}
      aria-label={`Star ${job.name} ${job.id}`}
      title={refusal ?? (isStarred ? "Remove the star" : "Give it a star, which everybody sees")}
      onClick={() => void toggle()}
    >
      <span aria-hidden="true">{isStarred ? "★" : "☆"}</span>
    </button>
  );
}
