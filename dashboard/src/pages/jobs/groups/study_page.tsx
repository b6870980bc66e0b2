// A page of the list of studies, and those behind it. Each page is polled by itself.

import { useEffect, useState } from "preact/hooks";
import { usePolled } from "../../../api/polled.ts";
import type { Listed, ListedStudy } from "../../../api/types.ts";
import { ProblemNotice, Waiting } from "../../../parts/notice.tsx";
import { type Shared, StudyGroup } from "./group.tsx";
import styles from "./groups.module.css";
import { studiesPath } from "./groups.ts";

const EVERY_S = 10; // the stream tells of changes; this corrects what it missed

export function StudyPage({ cursor, ...shared }: Shared & { cursor: string }) {
  const path = studiesPath(shared.view, cursor);
  const { data, problem, refresh } = usePolled<Listed<ListedStudy>>(path, { every_s: EVERY_S });
  const [openedCursor, openCursor] = useState<string | null>(null);
  useEffect(() => shared.news.onChange(refresh), [shared.news, refresh]);
  useEffect(() => openCursor(null), [path]);
  if (data === undefined) {
    return (
      <li class={styles["message"]}>
        <Waiting problem={problem} subject="studies" />
      </li>
    );
  }
  const next = data.next_cursor;
  return (
    <>
      {problem !== undefined && !problem.isAway && (
        <li class={styles["message"]}>
          <ProblemNotice problem={problem} />
        </li>
      )}
      {data.items.map((study) => (
        <StudyGroup key={study.id} study={study} {...shared} />
      ))}
      {openedCursor !== null && <StudyPage {...shared} cursor={openedCursor} />}
      {next !== null && openedCursor === null && (
        <li class={styles["message"]}>
          <button type="button" onClick={() => openCursor(next)}>
            Older studies
          </button>
        </li>
      )}
    </>
  );
}
