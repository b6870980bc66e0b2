// Why a job failed, what to do about it, and what was printed last: above all else on the page of such a job.

import { usePolled } from "../../api/polled.ts";
import type { Advice, EndReason, Job, Listed, LogLine, LogView } from "../../api/types.ts";
import { withParams } from "../../query.ts";
import { query } from "../../url.ts";
import styles from "./failure.module.css";
import { lastWords, plain, rankName } from "./logs/lines.ts";
import { explanationOf } from "./reasons.ts";

const LOOKED_AT = 200; // lines, in which those of the ranks are looked for
const SHOWN = 20;

interface Props {
  job: Job;
  advice: Listed<Advice> | undefined;
  /** Without the last lines, where the log itself is shown, or something else that one came for. */
  isBrief: boolean;
}

export function Failure({ job, advice, isBrief }: Props) {
  const { data } = usePolled<LogView>(isBrief ? null : `/v1/jobs/${job.id}/logs?tail=${LOOKED_AT}`, {
    every_s: Number.POSITIVE_INFINITY,
  });
  const explanation = explanationOf(job.end_reason as EndReason);
  const first = advice?.items[0];
  return (
    <section class={styles["failure"]} aria-label="Why it failed">
      <div class={styles["why"]}>
        <h2>{sentence(job.error ?? explanation.cause)}</h2>
        {job.error !== null && <p>{explanation.cause}</p>}
        <p>
          {explanation.remedy !== null && <>{explanation.remedy} </>}
          {first === undefined ? (
            <a href={`/new?clone=${job.id}`}>Submit it again with changes</a>
          ) : (
            <>
              Advice: {first.what} <a href={`/new?clone=${job.id}&advice=${first.number}`}>Apply it to a clone</a>
            </>
          )}
        </p>
      </div>
      {data !== undefined && <LastLines lines={lastWords(data.items, job.end_reason === "launch_failed", SHOWN)} />}
    </section>
  );
}

function LastLines({ lines }: { lines: readonly LogLine[] }) {
  if (lines.length === 0) return <p class={styles["none"]}>Nothing was printed.</p>;
  return (
    <div class={styles["lines"]}>
      <h3>
        Last lines <a href={`?${withParams(query.value, { tab: "logs" })}`}>all of the log</a>
      </h3>
      <pre tabIndex={0} role="region" aria-label="Last lines of the log">
        {lines.map(({ id, rank, text }) => (
          <div key={id}>
            <span class={styles["rank"]}>{rankName(rank)}</span>
            {plain(text)}
          </div>
        ))}
      </pre>
    </div>
  );
}

/** An error as a sentence of its own; a name that it begins with stays as it is. */
function sentence(text: string): string {
  return /^[a-z]+ /.test(text) ? text.charAt(0).toUpperCase() + text.slice(1) : text;
}
