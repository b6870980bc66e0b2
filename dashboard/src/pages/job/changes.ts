// What the dialog of a job's changes shows, and the changes that a person made in it. Used by `edit.tsx`.

import type { Job } from "../../api/types.ts";

/** The texts of the fields. */
export interface Draft {
  readonly name: string;
  readonly project: string;
  readonly priority: string;
  /** In seconds; empty: no limit. */
  readonly limit: string;
  /** A label on each line: key=value. */
  readonly labels: string;
}

export type Changes = Partial<{
  name: string;
  project: string;
  priority: number | string | null;
  time_limit_s: number | string | null;
  labels: Record<string, string | null>;
}>;

export function draftOf(job: Job): Draft {
  const limit = job.spec["time_limit_s"];
  const labels = Object.entries(job.labels).map(([key, value]) => `${key}=${value}`);
  return {
    name: job.name,
    project: job.project,
    priority: String(job.priority),
    limit: typeof limit === "number" ? String(limit) : "",
    labels: labels.join("\n"),
  };
}

/**
 * What the draft changes of what was shown at first; of labels only those that differ. So what others changed
 * meanwhile stays. A text that is no number is sent as it is: the api says what is wrong with it.
 */
export function changesOf(before: Draft, draft: Draft): Changes {
  const labels = changedLabels(labelsOf(before.labels), labelsOf(draft.labels));
  return {
    ...(draft.name === before.name ? {} : { name: draft.name }),
    ...(draft.project === before.project ? {} : { project: draft.project }),
    ...(draft.priority === before.priority ? {} : { priority: numberOf(draft.priority) }),
    ...(draft.limit === before.limit ? {} : { time_limit_s: numberOf(draft.limit) }),
    ...(Object.keys(labels).length === 0 ? {} : { labels }),
  };
}

function numberOf(text: string): number | string | null {
  const trimmed = text.trim();
  if (trimmed === "") return null;
  return Number.isFinite(Number(trimmed)) ? Number(trimmed) : trimmed;
}

function labelsOf(text: string): ReadonlyMap<string, string> {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  return new Map(
    lines.map((line) => {
      const [key = "", ...value] = line.split("=");
      return [key.trim(), value.join("=").trim()];
    }),
  );
}

function changedLabels(before: ReadonlyMap<string, string>, after: ReadonlyMap<string, string>) {
  const removed = [...before.keys()].filter((key) => !after.has(key)).map((key) => [key, null] as const);
  const set = [...after].filter(([key, value]) => before.get(key) !== value);
  return Object.fromEntries([...removed, ...set]);
}
