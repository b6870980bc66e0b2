// The overview of a job: its figures, charts, ledger, findings and advice.

import type { Polled } from "../../api/polled.ts";
import type { Advice, Analysis, Job, Listed } from "../../api/types.ts";
import { isScript } from "../../metrics.ts";
import { Notice, ProblemNotice, Waiting } from "../../parts/notice.tsx";
import { AdvicePanel } from "./analysis/advice.tsx";
import { FindingsPanel } from "./analysis/findings.tsx";
import { LedgerPanel } from "./analysis/ledger.tsx";
import { JobCharts } from "./charts/charts.tsx";
import styles from "./page.module.css";
import { MetricsPanel } from "./results/metrics.tsx";
import { isProbe, ProbePanel } from "./results/probe.tsx";
import { ScriptPanel } from "./results/script.tsx";
import { Summary } from "./results/summary.tsx";
import { useOfJob } from "./use_job.ts";

export function Overview({ job, advice }: { job: Job; advice: Polled<Listed<Advice>> }) {
  const isLive = job.ended_at === null;
  const path = job.attempt > 0 ? `/v1/jobs/${job.id}/analysis` : null;
  const { data, problem } = useOfJob<Analysis>(path, job.revision, isLive ? 30 : 60);
  // Both together, so that neither moves the other.
  const isLoaded = [data ?? problem, advice.data ?? advice.problem].every((answer) => answer !== undefined);
  return (
    <>
      <Summary job={job} />
      {isScript(job.spec) && (
        <div class={styles["columns"]}>
          <ScriptPanel job={job} />
          <MetricsPanel job={job} />
        </div>
      )}
      {isProbe(job) && <ProbePanel job={job} />}
      <Charts job={job} />
      {job.attempt > 0 && !isLoaded && <Waiting problem={problem} subject="the analysis" />}
      {job.attempt > 0 && isLoaded && (
        <div class={styles["columns"]}>
          {data === undefined ? (
            <ProblemNotice problem={problem} />
          ) : (
            <LedgerPanel ledger={data.ledger} unit={unitOf(data)} isComplete={data.complete} />
          )}
          <div class={styles["column"]}>
            {advice.data === undefined ? (
              <ProblemNotice problem={advice.problem} />
            ) : (
              <AdvicePanel job={job.id} items={advice.data.items} isLive={isLive} />
            )}
            {data !== undefined && <FindingsPanel analysis={data} isScript={isScript(job.spec)} />}
            {!isScript(job.spec) && <MetricsPanel job={job} />}
          </div>
        </div>
      )}
    </>
  );
}

/** The charts, or why there is nothing to draw. */
function Charts({ job }: { job: Job }) {
  if (job.attempt === 0) {
    return (
      <Notice title="No data">
        {job.ended_at === null ? "Curves appear with the first steps." : "The job ended before its launch."}
      </Notice>
    );
  }
  const hasSteps = job.progress.step !== undefined && job.progress.step > 0;
  // A script may report nothing. Then its utilization is there all the same.
  if (!hasSteps && !isScript(job.spec) && job.ended_at !== null)
    return <Notice title="No data">The job ended before its first step.</Notice>;
  return <JobCharts job={job} />;
}

/** "GPU" if the slots are GPUs. Otherwise they are shares of a CPU. */
function unitOf({ utilization }: Analysis): string {
  return utilization.some(({ metric }) => metric === "gpu_percent") ? "GPU" : "slot";
}
