// A chart of an article: curves of its jobs, as on the page that compares runs.

import { useMemo, useState } from "preact/hooks";
import type { ArticleChart, Job } from "../../api/types.ts";
import { newScope } from "../../charts/scope.ts";
import { ProblemNotice } from "../../parts/notice.tsx";
import { settingsAmong } from "../compare/fields.ts";
import { coloured, grouped, withToggled } from "../compare/groups.ts";
import { Overlay } from "../compare/overlay.tsx";
import { runsOf, toggled } from "../compare/runs.ts";
import { useCurves } from "../compare/use_curves.ts";
import styles from "./blocks.module.css";
import { captionOf, useBlockJobs } from "./use_runs.ts";

const NO_IDS: ReadonlySet<string> = new Set();
const NO_JOBS: readonly Job[] = [];

export function ChartFigure({ block }: { block: ArticleChart }) {
  const found = useBlockJobs(block.runs);
  const [hidden, setHidden] = useState<readonly string[]>([]);
  const jobs = found.jobs ?? NO_JOBS;
  const [runs, groups] = useMemo(() => {
    const byId = new Map(jobs.map((job) => [job.id, job]));
    const own = runsOf([...byId.keys()], byId, [], { hidden: new Set(hidden), best: null });
    const groups = grouped(own, groupKey(block.group), settingsAmong(jobs).differing);
    return [coloured(own, groups), groups];
  }, [jobs, hidden, block.group]);
  const onHide = (key: string): void => {
    const group = groups.find((each) => each.key === key);
    setHidden(group ? withToggled(hidden, group) : toggled(hidden, key));
  };
  const curves = useCurves(runs, block.metrics, block.axis);
  const isAwaited = runs.some(({ job }) => job.started_at !== null) && !runs.some(({ id }) => curves.byRun?.has(id));
  const isLoading = !(found.problem ?? curves.problem ?? (found.jobs !== undefined && !isAwaited));
  const scope = useMemo(() => newScope(), [block.axis]);
  return (
    <figure class={styles["figure"]} aria-busy={isLoading}>
      <ProblemNotice problem={found.problem} />
      <Overlay
        scope={scope}
        title={block.title ?? "Curves"}
        runs={runs}
        groups={groups}
        faded={NO_IDS}
        metrics={block.metrics}
        curves={curves}
        axis={block.axis}
        smooth={0}
        isLog={false}
        onHide={onHide}
      />
      <figcaption class={styles["caption"]}>
        {captionOf(block.runs, found)}
        {block.group !== null && ` Grouped by ${block.group}.`}
      </figcaption>
    </figure>
  );
}

const KEYS: Readonly<Record<string, string>> = {
  batch: "plan.global_batch",
  rate: "plan.learning_rate",
  dataset: "dataset.source",
  model: "model.name",
};

/** The name that the page Compare has for the column of a group. */
function groupKey(column: string | null): string {
  return KEYS[column ?? ""] ?? (column ?? "").replace(/^spec\./, "").replace(/^label\./, "labels.");
}
