// The checkpoints of a job that are in the store, with the value of its goal at each.

import type { Checkpoint, Job, Listed, Metrics } from "../../../api/types.ts";
import { bytes, moment, number } from "../../../format.ts";
import { goalMetricOf, metricsOf } from "../../../metrics.ts";
import { Notice, Waiting } from "../../../parts/notice.tsx";
import { Panel } from "../../../parts/panel.tsx";
import { pathWith } from "../../../query.ts";
import { mayContinue } from "../actions.tsx";
import { RowsTable } from "../rows_table.tsx";
import { useOfJob } from "../use_job.ts";
import { FileLink } from "./file_link.tsx";
import styles from "./results.module.css";

const MOST = 100; // the api's limit for one answer
const MOST_EPOCHS = 10_000;

export function CheckpointsPanel({ job }: { job: Job }) {
  const everyS = job.ended_at === null ? 15 : 60;
  const path = job.attempt > 0 ? `/v1/jobs/${job.id}/checkpoints` : null;
  const { data, problem } = useOfJob<Listed<Checkpoint>>(path && `${path}?limit=${MOST}`, job.revision, everyS);
  const goal = goalMetricOf(job.spec, Object.keys(metricsOf(job)));
  const valuesPath = data?.items.length && goal !== null ? goalPath(job, goal) : null;
  const values = useOfJob<Metrics>(valuesPath, job.revision, everyS).data?.series[0];
  if (path === null) return null;
  return (
    <Panel title="Checkpoints" flush>
      {problem?.status === 409 ? (
        <p class={styles["empty"]}>The page shows checkpoints that are in a store: {problem.detail}.</p>
      ) : data === undefined ? (
        <Waiting problem={problem} subject="the checkpoints" />
      ) : data.items.length === 0 ? (
        <p class={styles["empty"]}>The store has no checkpoints of this job.</p>
      ) : (
        <RowsTable
          label="Table of checkpoints"
          rows={data.items}
          keyOf={({ attempt, step }) => `${attempt}/${step}`}
          columns={[
            {
              name: "Step",
              cell: ({ step, is_best }) => (
                <>
                  {number(step)}
                  {is_best && <span class={styles["goal"]}>best</span>}
                </>
              ),
            },
            { name: "Epoch", isFigure: true, cell: ({ epoch }) => number(epoch) },
            ...(goal === null
              ? []
              : [
                  {
                    name: goal,
                    isFigure: true,
                    cell: ({ epoch }: Checkpoint) => number(values?.y[values.x.indexOf(epoch)]),
                  },
                ]),
            { name: "Size", isFigure: true, cell: (row) => bytes(row.bytes) },
            { name: "Saved", cell: ({ saved_at }) => moment(saved_at) },
            { name: "Files", cell: (row) => <Files job={job.id} checkpoint={row} /> },
            ...(mayContinue(job)
              ? [
                  {
                    name: "New job",
                    cell: ({ epoch }: Checkpoint) => (
                      <a href={`/new?clone=${job.id}&from=${epoch}`}>Continue from here</a>
                    ),
                  },
                ]
              : []),
          ]}
        />
      )}
      {data?.next_cursor != null && (
        <Notice>
          Only the newest {MOST} are listed: `hora artifacts {job.id} --checkpoints` lists all.
        </Notice>
      )}
    </Panel>
  );
}

/** The values of the goal over all ranks, one for each epoch. */
function goalPath({ id }: Job, name: string): string {
  return pathWith(`/v1/jobs/${id}/metrics`, { name, rank: -1, axis: "epoch", max_points: MOST_EPOCHS });
}

function Files({ job, checkpoint: { attempt, step, files } }: { job: string; checkpoint: Checkpoint }) {
  const above = `/v1/jobs/${job}/checkpoints/${attempt}/${step}`;
  return (
    <>
      {files.map(({ path, bytes: size }) => (
        <FileLink key={path} above={above} path={path} prefix={`step-${step}-`} title={bytes(size)} />
      ))}
    </>
  );
}
