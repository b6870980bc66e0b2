// The list of studies at /studies, newest first, with their grids and progress.

import { useEffect, useRef } from "preact/hooks";
import { usePolled } from "../../api/polled.ts";
import type { Listed, StudyLine } from "../../api/types.ts";
import { ago, moment } from "../../format.ts";
import { Notice, ProblemNotice, Waiting } from "../../parts/notice.tsx";
import { Panel } from "../../parts/panel.tsx";
import { StatusBadge } from "../../parts/status.tsx";
import { pathWith, withParams } from "../../query.ts";
import { param, query } from "../../url.ts";
import { CountsBar } from "./counts_bar.tsx";
import styles from "./list.module.css";
import { gridLine, isPaused, progressLine, statusOf } from "./state.ts";

const PAGE = 50;
const cursorParam = param("cursor");

export function StudiesPage() {
  const cursor = cursorParam.value;
  const { data, problem } = usePolled<Listed<StudyLine>>(pathWith("/v1/studies", { limit: PAGE, cursor }), {
    every_s: 3,
  });
  const head = useRef<HTMLHeadingElement>(null);
  const isFirst = useRef(true);
  useEffect(() => {
    if (!isFirst.current) head.current?.focus(); // another page of the list was opened
    isFirst.current = false;
  }, [cursor]);
  return (
    <div class={styles["page"]}>
      <header class={styles["header"]}>
        <h1 ref={head} tabIndex={-1}>
          Studies
        </h1>
        <a href="/studies/new">New study</a>
      </header>
      {data !== undefined && <ProblemNotice problem={problem} />}
      {data === undefined ? (
        <Waiting problem={problem} subject="studies" />
      ) : (
        <Studies page={data} isFirst={cursor === ""} />
      )}
    </div>
  );
}

function Studies({ page, isFirst }: { page: Listed<StudyLine>; isFirst: boolean }) {
  if (page.items.length === 0 && isFirst) return <Empty />;
  return (
    <Panel title={isFirst ? "Newest first" : "Older studies"} flush>
      <div class={styles["scroll"]}>
        <table class={styles["table"]}>
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col">State</th>
              <th scope="col">Jobs</th>
              <th scope="col">Grid</th>
              <th scope="col">Owner</th>
              <th scope="col">Project</th>
              <th scope="col">Created</th>
            </tr>
          </thead>
          <tbody>
            {page.items.map((study) => (
              <Row key={study.id} study={study} />
            ))}
          </tbody>
        </table>
      </div>
      <nav class={styles["pages"]} aria-label="Pages of the list">
        {!isFirst && <a href="/studies">Newest</a>}
        {page.next_cursor !== null && (
          <a href={`/studies?${withParams(query.value, { cursor: page.next_cursor })}`}>Older</a>
        )}
      </nav>
    </Panel>
  );
}

function Row({ study }: { study: StudyLine }) {
  return (
    <tr>
      <th scope="row" class={styles["name"]}>
        <a href={`/studies/${study.id}`}>
          <bdi>{study.name}</bdi>
        </a>{" "}
        <span class="mono muted">{study.id}</span>
      </th>
      <td>
        <StatusBadge status={statusOf(study)} pausedAt={isPaused(study) ? study.created_at : null} />
      </td>
      <td class={styles["jobs"]}>
        <CountsBar study={study} />
        <span class={styles["progress"]}>{progressLine(study)}</span>
      </td>
      <td>
        {gridLine(study)}
        {study.target !== null && <span class="muted"> · target {study.target}</span>}
      </td>
      <td>{study.owner}</td>
      <td>{study.project}</td>
      <td title={moment(study.created_at)}>{ago(study.created_at)}</td>
    </tr>
  );
}

function Empty() {
  return (
    <Notice title="No studies yet">
      A study is a grid of jobs and a report of how they compare, for example over GPUs and batch sizes.{" "}
      <a href="/studies/new">Write one here</a>, or submit a file: <code>hora study FILE</code>. Its jobs run like any
      others.
    </Notice>
  );
}
