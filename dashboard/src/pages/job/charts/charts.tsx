// The charts of a job on one axis: metrics, speed, and the utilization of its slots and hosts.

import { type Signal, useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { usePolled } from "../../../api/polled.ts";
import type { Attempt, Job, Listed } from "../../../api/types.ts";
import type { Scope } from "../../../charts/scope.ts";
import { NO_ZOOM, useScope } from "../../../charts/use_scope.ts";
import { finder } from "../../../find.ts";
import { goalMetricOf, goalOf, isScript } from "../../../metrics.ts";
import { Waiting } from "../../../parts/notice.tsx";
import { isTerminal } from "../../../parts/status.tsx";
import { setParams } from "../../../url.ts";
import { isProbe } from "../results/probe.tsx";
import { useEver } from "../use_job.ts";
import type { Chart, ChartOptions } from "./chart.ts";
import styles from "./charts.module.css";
import { learningCharts, speedCharts } from "./curves.ts";
import { expectedMetrics } from "./expected.ts";
import { Group } from "./group.tsx";
import { marksOf } from "./marks.ts";
import { useOwnGroup } from "./own_group.tsx";
import { isOpen, sectionsOf } from "./sections.ts";
import { gpuCharts, hasGpus, hostCharts, metricsOf, slotCharts } from "./slots.ts";
import { Toolbar } from "./toolbar.tsx";
import { useBefore } from "./use_before.ts";
import { type Series, useSeries } from "./use_series.ts";
import { useView, type View } from "./use_view.ts";
import { type Axis, DEFAULTS, textOf, toggled } from "./view.ts";

export function JobCharts({ job }: { job: Job }) {
  const defaultAxis = hasSteps(job) ? "step" : "time";
  const view = useView(job.gpus, defaultAxis);
  const { axis, ranks, open } = view;
  const scope = useScope();
  const sampled = useMemo(() => metricsOf(open), [open]);
  const { series, problem } = useSeries({ job, axis, ranks, sampled, scope });

  const edited = useSignal<number | null>(null);
  const isGrowing = useEver(series === undefined || !isTerminal(job.status));
  const toAxis = (next: Axis): void => {
    scope.zoom.value = scope.cursor.value = null;
    setParams({ x: next === defaultAxis ? null : next, ...NO_ZOOM });
  };
  return (
    <section class={`${styles["charts"]} ${isGrowing ? styles["growing"] : ""}`} aria-label="Charts">
      <Toolbar
        view={view}
        scope={scope}
        count={job.gpus}
        onAxis={toAxis}
        onNew={() => {
          edited.value = -1;
        }}
      />
      {series === undefined ? (
        <Waiting problem={problem} subject="the charts" />
      ) : (
        <div class={series.axis === axis ? undefined : styles["old"]} aria-busy={series.axis !== axis}>
          <Groups job={job} series={series} view={view} scope={scope} edited={edited} />
        </div>
      )}
    </section>
  );
}

interface Props {
  job: Job;
  series: Series;
  view: View;
  scope: Scope;
  /** The own chart that is changed; -1 for a new one. */
  edited: Signal<number | null>;
}

function Groups({ job, series, view, scope, edited }: Props) {
  const { ranks, logs, open, hidden, find } = view;
  const smooth = view.smooth.value;
  const [goal, hasCode] = [firstMetric(job), isScript(job.spec)];
  const { spec, dataset, ended_at } = job;
  const expected = useMemo(() => expectedMetrics({ spec, dataset, ended_at }), [spec, dataset, ended_at]);
  const before = useBefore(job, series.axis);
  const options: ChartOptions = useMemo(
    () => ({ smooth, ranks, logs, count: job.gpus, goal, isScript: hasCode, expected, before }),
    [smooth, ranks, logs, job.gpus, goal, hasCode, expected, before],
  );
  const marks = useMarks(job, series);
  const { own, group, over } = useOwnGroup({ job, metrics: series.metrics, options, scope, marks, edited });
  const others = useMemo(() => groupsOf(series, options), [series, options]);
  const groups = matching(own.charts.length > 0 ? [group, ...others] : others, find);
  if (expected.size === 0 && series.metrics.size === 0 && series.samples.slots.size === 0 && open.has("slots"))
    return (
      <>
        {over}
        <NoCurves job={job} />
      </>
    );
  const onToggle = (line: string): void => setParams({ hide: textOf(toggled(hidden, line), []) });
  const onFold = (group: string): void => setParams({ charts: textOf(toggled(open, group), DEFAULTS.open) });
  return (
    <>
      {over}
      {groups.length === 0 && <p class={styles["nothing"]}>No chart has a name with “{find}”.</p>}
      {groups.map(({ key, title, charts, note, tools }) => (
        <Group
          key={key}
          title={title}
          note={note}
          tools={tools}
          isOpen={isOpen(key, open)}
          onFold={() => onFold(key)}
          charts={charts}
          plot={{ fileName: job.name, scope, marks, ...FORMS[series.axis], hidden, onToggle }}
        />
      ))}
    </>
  );
}

/** Whether the job counts steps: the runs of a probe do not, and a script need not. */
function hasSteps(job: Job): boolean {
  const reportsNothing = isScript(job.spec) && !job.progress.step && Object.keys(job.metrics).length === 0;
  return !isProbe(job) && !reportsNothing;
}

/** The metric whose chart comes first: the goal of the spec, or for a script the metric that counts. */
function firstMetric({ spec, metrics }: Job): string | null {
  return isScript(spec) ? goalMetricOf(spec, Object.keys(metrics)) : (goalOf(spec)?.metric ?? null);
}

const FORMS = {
  step: { xName: "step", unitX: "tens" },
  epoch: { xName: "epoch", unitX: "tens" },
  time: { xName: "time", unitX: "seconds" },
} as const;

const NO_GPU_CHARTS = "The slots are shares of the CPU, so there are no GPU charts.";
const NOT_CONFIRMED = "From the driver. This project has not yet compared them with nvidia-smi on a real card.";

interface ChartGroup {
  readonly key: string;
  readonly title: string;
  readonly charts: readonly Chart[];
  readonly note?: string;
  readonly tools?: ComponentChildren;
}

/** The groups with a chart that a search finds, and these charts of each. */
function matching(groups: readonly ChartGroup[], find: string): readonly ChartGroup[] {
  if (find === "") return groups;
  const isFound = finder(find);
  return groups
    .map((group) => ({ ...group, charts: group.charts.filter(({ key, title }) => isFound(key) || isFound(title)) }))
    .filter(({ charts }) => charts.length > 0);
}

function groupsOf({ metrics, samples }: Series, options: ChartOptions): readonly ChartGroup[] {
  const slotsNote = hasGpus(samples) ? NOT_CONFIRMED : NO_GPU_CHARTS;
  const { loose, sections } = sectionsOf(learningCharts(metrics, options));
  return [
    { key: "learning", title: "Learning", charts: loose },
    ...sections,
    { key: "speed", title: "Speed", charts: speedCharts(metrics, options) },
    {
      key: "slots",
      title: "Utilization",
      charts: slotCharts(samples, metrics, options),
      ...(samples.slots.size > 0 ? { note: slotsNote } : {}),
    },
    ...(hasGpus(samples)
      ? [{ key: "gpus", title: "More GPU charts", charts: gpuCharts(samples, options) } as const]
      : []),
    { key: "hosts", title: "Hosts", charts: hostCharts(samples, options) },
  ];
}

function useMarks(job: Job, series: Series) {
  const path = job.attempt > 1 ? `/v1/jobs/${job.id}/attempts?limit=1000` : null;
  const { data } = usePolled<Listed<Attempt>>(path, {
    every_s: isTerminal(job.status) ? Number.POSITIVE_INFINITY : 10,
  });
  const { summary, plan, spec, started_at, created_at } = job;
  // The job is a new object with every step. The marks are redrawn only when their data changes.
  return useMemo(
    () => marksOf({ summary, plan, spec, started_at, created_at }, data?.items ?? [], series.metrics, series.axis),
    [summary, plan, spec, started_at, created_at, data, series],
  );
}

function NoCurves({ job }: { job: Job }) {
  if (!isTerminal(job.status))
    return (
      <p class={styles["nothing"]}>
        No steps yet. Curves begin with the first step. The axis Time shows utilization before that.
      </p>
    );
  return <p class={styles["nothing"]}>This job has no curves.</p>;
}
