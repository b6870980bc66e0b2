// The queued jobs in the order of the queue, each with its reason to wait.

import { usePolled } from "../../api/polled.ts";
import type { Job, Listed } from "../../api/types.ts";
import { ago, moment, number } from "../../format.ts";
import { Waiting } from "../../parts/notice.tsx";
import { Panel } from "../../parts/panel.tsx";
import { pathWith } from "../../query.ts";
import styles from "./queue.module.css";
import { queueOf } from "./queue.ts";

const SHOWN = 100;

interface Props {
  /** The hosts that keep slots, by the job that they are kept for. */
  hostsByJob: ReadonlyMap<string, readonly string[]>;
}

export function QueuePanel({ hostsByJob }: Props) {
  // In the order of the queue: by falling priority, then the oldest first.
  const list = { status: "queued", sort: "-priority", limit: SHOWN };
  const unpausedPoll = usePolled<Listed<Job>>(pathWith("/v1/jobs", { ...list, paused: false }), { every_s: 3 });
  const pausedPoll = usePolled<Listed<Job>>(pathWith("/v1/jobs", { ...list, paused: true }), { every_s: 10 });
  const { waiting, outOfTurn } = queueOf([...(unpausedPoll.data?.items ?? []), ...(pausedPoll.data?.items ?? [])]);
  const hasMore = [unpausedPoll, pausedPoll].some(({ data }) => (data?.next_cursor ?? null) !== null);
  return (
    <Panel
      title={waiting.length === 0 ? "Queue" : `Queue: ${waiting.length}${hasMore ? " and more" : ""}`}
      tools={hasMore && <a href="/?status=queued">All queued jobs</a>}
      flush
    >
      {unpausedPoll.data === undefined ? (
        <Waiting problem={unpausedPoll.problem} subject="the queue" />
      ) : waiting.length + outOfTurn.length === 0 ? (
        <p class={styles["empty"]}>No jobs are waiting.</p>
      ) : (
        <div class={styles["scroller"]}>
          <table class={styles["table"]}>
            <thead>
              <tr>
                <th scope="col" class="figure">
                  Position
                </th>
                <th scope="col">Job and reason to wait</th>
                <th scope="col" class="figure">
                  GPUs
                </th>
                <th scope="col" class="figure">
                  Priority
                </th>
                <th scope="col" class={styles["wide"]}>
                  Owner
                </th>
                <th scope="col" class={styles["wide"]}>
                  Project
                </th>
                <th scope="col" class={styles["wide"]}>
                  Submitted
                </th>
              </tr>
            </thead>
            <Rows jobs={waiting} hostsByJob={hostsByJob} />
            {outOfTurn.length > 0 && (
              <Rows title="Paused, or waiting after a failure" jobs={outOfTurn} hostsByJob={hostsByJob} />
            )}
          </table>
        </div>
      )}
    </Panel>
  );
}

interface RowsProps extends Props {
  title?: string;
  jobs: readonly Job[];
}

function Rows({ title, jobs, hostsByJob }: RowsProps) {
  return (
    <tbody>
      {title !== undefined && (
        <tr>
          <th scope="rowgroup" colSpan={7} class={styles["group"]}>
            {title}
          </th>
        </tr>
      )}
      {jobs.map((job) => (
        <tr key={job.id}>
          <td class="figure">{number(job.waiting?.position)}</td>
          <td class={styles["job"]}>
            <a href={`/jobs/${job.id}`}>{job.name}</a>
            <small>
              <span class="mono">{job.id}</span> {reasonOf(job, hostsByJob.get(job.id))}
            </small>
          </td>
          <td class="figure">{number(job.gpus)}</td>
          <td class="figure">{number(job.priority)}</td>
          <td class={styles["wide"]}>{job.owner}</td>
          <td class={styles["wide"]}>{job.project}</td>
          <td class={styles["wide"]} title={moment(job.created_at)}>
            {ago(job.created_at)}
          </td>
        </tr>
      ))}
    </tbody>
  );
}

const NAMED = 3; // hosts

function reasonOf(job: Job, hosts: readonly string[] = []): string {
  const since = job.paused_at ? ` since ${moment(job.paused_at)}` : "";
  const more = hosts.length > NAMED ? ` and ${hosts.length - NAMED} more hosts` : "";
  const where = hosts.length === 0 ? "" : `; slots are kept for it on ${hosts.slice(0, NAMED).join(", ")}${more}`;
  return `${job.waiting?.reason ?? ""}${since}${where}`;
}
