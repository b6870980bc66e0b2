// Why a job failed, what to do about it, and its last log lines. Shown first on the page of a failed job.

import { usePolled } from "../../api/polled.ts";
import type { Advice, Job, Listed, LogLine, LogView } from "../../api/types.ts";
import { withParams } from "../../query.ts";
import { query } from "../../url.ts";
import styles from "./failure.module.css";
import { lastWords, plain, rankName } from "./logs/lines.ts";
import { sentence } from "./reasons.ts";

const FETCHED = 200; // lines of the log, from which the lines of the ranks are picked
const SHOWN = 20;

interface Props {
  job: Job;
  advice: Listed<Advice> | undefined;
  /** Without the last lines of the log, for tabs other than the overview. */
  isBrief: boolean;
}

export function Failure({ job, advice, isBrief }: Props) {
  const { data } = usePolled<LogView>(isBrief ? null : `/v1/jobs/${job.id}/logs?tail=${FETCHED}`, {
    every_s: Number.POSITIVE_INFINITY,
  });
  const first = advice?.items[0];
  return (
    <section class={styles["failure"]} aria-label="Why it failed">
      <div class={styles["why"]}>
        <h2>{sentence(job.error ?? job.cause ?? "")}</h2>
        {job.error !== null && <p>{job.cause}</p>}
        <p>
          {job.remedy !== null && <>{job.remedy} </>}
          {first === undefined ? (
            <a href={`/new?clone=${job.id}`}>Submit it again with changes</a>
          ) : (
            <>
              Advice: {first.what} <a href={`/new?clone=${job.id}&advice=${first.number}`}>Apply it to a clone</a>
            </>
          )}
        </p>
      </div>
      {!isBrief && <LastLines lines={data && lastWords(data.items, job.end_reason === "launch_failed", SHOWN)} />}
    </section>
  );
}

/** The lines, in a room that does not depend on their number: nothing below it moves when they come. */
function LastLines({ lines }: { lines: readonly LogLine[] | undefined }) {
  return (
    <div class={styles["lines"]}>
      <h3>
        Last lines <a href={`?${withParams(query.value, { tab: "logs" })}`}>whole log</a>
      </h3>
      <pre tabIndex={0} role="region" aria-label="Last lines of the log">
        {lines?.length === 0 && <span class={styles["none"]}>Nothing was printed.</span>}
        {lines?.map(({ id, rank, text }) => (
          <div key={id}>
            <span class={styles["rank"]}>{rankName(rank)}</span>
            {plain(text)}
          </div>
        ))}
      </pre>
    </div>
  );
}
