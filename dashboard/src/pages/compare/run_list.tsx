// The runs by number, colour and name: the legend of all charts of the page. Each can be hidden or removed.

import { useComputed } from "@preact/signals";
import { Swatch } from "../../charts/swatch.tsx";
import { number } from "../../format.ts";
import { metricText } from "../../metrics.ts";
import { StatusBadge } from "../../parts/status.tsx";
import { ColourButton } from "./colour_button.tsx";
import { goalName, goalValue } from "./fields.ts";
import { focused, focusing } from "./focus.ts";
import styles from "./run_list.module.css";
import type { Run } from "./runs.ts";

interface Props {
  runs: readonly Run[];
  /** Ids of runs that are drawn faintly. */
  faded: ReadonlySet<string>;
  /** The list is within that of groups. */
  isInner?: boolean;
  onHide: (id: string) => void;
  onRemove: (id: string) => void;
}

export function RunList({ runs, faded, isInner = false, onHide, onRemove }: Props) {
  return (
    <ol class={styles[isInner ? "inner" : "list"]}>
      {runs.map((run) => (
        <Entry key={run.id} run={run} isFaded={faded.has(run.id)} onHide={onHide} onRemove={onRemove} />
      ))}
    </ol>
  );
}

interface EntryProps extends Omit<Props, "runs" | "faded" | "isInner"> {
  run: Run;
  isFaded: boolean;
}

function Entry({ run, isFaded, onHide, onRemove }: EntryProps) {
  const { id, job, label } = run;
  const isFocused = useComputed(() => (focused.value === id ? "true" : undefined));
  return (
    <li
      class={styles["entry"]}
      data-focused={isFocused}
      data-back={run.isHidden || isFaded || undefined}
      {...focusing(id)}
    >
      <span class={styles["lead"]}>
        <button
          type="button"
          class={styles["show"]}
          aria-pressed={!run.isHidden}
          aria-label={`Show run ${run.number}, ${job.name}${run.isHidden ? ": off" : ""}`}
          title={run.isHidden ? "Show this run" : "Hide this run"}
          onClick={() => onHide(id)}
        >
          <span class={styles["number"]}>{run.isHidden ? "off" : run.number}</span>
          {run.group !== null && <Swatch colour={run.colour} dash={run.dash} />}
        </button>
        {run.group === null && (
          <ColourButton of={id} name={`run ${run.number}, ${job.name}`} colour={run.colour} dash={run.dash} />
        )}
      </span>
      <a class={styles["name"]} href={`/jobs/${id}`} title={`${job.name} · ${id}`}>
        {label}
      </a>
      {job.status === "succeeded" ? (
        <span class={styles["value"]} title={metricText(goalName(job) ?? "")}>
          {number(goalValue(job))}
        </span>
      ) : (
        <StatusBadge status={job.status} pausedAt={job.paused_at} />
      )}
      <button
        type="button"
        class={styles["remove"]}
        aria-label={`Remove run ${run.number}, ${job.name}, from the comparison`}
        title="Remove from the comparison"
        onClick={() => onRemove(id)}
      >
        ×
      </button>
    </li>
  );
}
