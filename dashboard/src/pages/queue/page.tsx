// The queue at /queue: which job is next, why each waits, and whose turn it is.

import { useEffect, useRef } from "preact/hooks";
import { usePolled } from "../../api/polled.ts";
import { useStream } from "../../api/stream.ts";
import type { Queue } from "../../api/types.ts";
import { countText, number, percent } from "../../format.ts";
import { Notice, ProblemNotice, Waiting } from "../../parts/notice.tsx";
import { Panel } from "../../parts/panel.tsx";
import { pathWith } from "../../query.ts";
import { param } from "../../url.ts";
import { Accounts } from "./accounts.tsx";
import { type AnyState, concernsQueue } from "./news.ts";
import styles from "./page.module.css";
import { QueuedJobs } from "./rows.tsx";

const SHOWN = 100;
const GATHERED_MS = 300;
const MOST_SHOWN = 500; // the most that the api gives at once

const owner = param("owner");
const project = param("project");
const shown = param("show");

export function QueuePage() {
  const limit = shown.value === "more" ? MOST_SHOWN : SHOWN;
  const path = pathWith("/v1/queue", { limit, owner: owner.value, project: project.value });
  const { data, problem, refresh } = usePolled<Queue>(path);
  const refreshSoon = useSoon(refresh);
  useStream(pathWith("/v1/events", { owner: owner.value, project: project.value }), {
    state: (state: AnyState) => {
      if (concernsQueue(data, state)) refreshSoon();
    },
  });
  return (
    <div class={styles["page"]}>
      <h1>Queue</h1>
      {data !== undefined && <ProblemNotice problem={problem} />}
      {data === undefined ? (
        <Waiting problem={problem} subject="the queue" />
      ) : (
        <>
          <About queue={data} />
          {data.accounts.length > 0 && <Accounts queue={data} />}
          <Jobs queue={data} limit={limit} onMoved={refresh} />
        </>
      )}
    </div>
  );
}

/** Calls `act` once for several calls that come together. */
function useSoon(act: () => void): () => void {
  const newest = useRef(act);
  newest.current = act;
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  return () => {
    timer.current ??= setTimeout(() => {
      timer.current = undefined;
      newest.current();
    }, GATHERED_MS);
  };
}

function About({ queue }: { queue: Queue }) {
  const { total, held_back, forecast } = queue;
  return (
    <p class={styles["about"]}>
      {total === 0 ? "No job waits for slots." : `${countText(total, "job")} ${total === 1 ? "waits" : "wait"}. `}
      {total > 0 &&
        (queue.policy === "fair"
          ? "They come by priority, then by turns: who has had less of the share comes first. "
          : "They come by priority, then by age. ")}
      {held_back > 0 && (
        <>
          {" "}
          <a href="/?status=queued">{held_back === 1 ? "1 queued job" : `${number(held_back)} queued jobs`}</a>{" "}
          {held_back === 1 ? "has" : "have"} no place: paused, or waiting for other jobs.{" "}
        </>
      )}
      {forecast !== null && (
        <span class="muted">
          Half of the expected starts of the last week were within a factor of {number(forecast.median_error, 2)} (
          {percent(forecast.within_2)} within a factor of 2).
        </span>
      )}
    </p>
  );
}

function Jobs({ queue, limit, onMoved }: { queue: Queue; limit: number; onMoved: () => void }) {
  const isFiltered = owner.value !== "" || project.value !== "";
  const last = queue.items.at(-1)?.position ?? 0;
  if (queue.items.length === 0 && !isFiltered)
    return (
      <Notice title="No job waits">
        <p>
          A job appears here when it finds no free slots. <a href="/new">Submit a job</a>
        </p>
      </Notice>
    );
  return (
    <Panel title="Next jobs" tools={isFiltered && <Filter />} flush>
      {queue.items.length === 0 ? (
        <p class={styles["empty"]}>None of these jobs waits.</p>
      ) : (
        <QueuedJobs jobs={queue.items} isWhole={!isFiltered} onMoved={onMoved} />
      )}
      {queue.next_cursor !== null && (
        <p class={styles["empty"]}>
          {isFiltered ? "More jobs come" : `${countText(queue.total - last, "job")} more`} after these.{" "}
          {limit < MOST_SHOWN && (
            <button type="button" onClick={() => shown.set("more")}>
              Show {MOST_SHOWN}
            </button>
          )}
        </p>
      )}
    </Panel>
  );
}

function Filter() {
  const whose = owner.value === "" ? "all users" : owner.value;
  return (
    <p>
      Only jobs of <bdi>{whose}</bdi>
      {project.value !== "" && ` in the project ${project.value}`}. <a href="/queue">Show all</a>
    </p>
  );
}
