// A page of groups, and those behind it. Each page is polled by itself.

import { useEffect, useState } from "preact/hooks";
import { usePolled } from "../../../api/polled.ts";
import type { JobGroup, Listed, ListedStudy } from "../../../api/types.ts";
import { ProblemNotice, Waiting } from "../../../parts/notice.tsx";
import { choice } from "../use_columns.ts";
import { FieldsGroup, type Shared, StudyGroup } from "./group.tsx";
import styles from "./groups.module.css";
import { groupsPath } from "./groups.ts";

export const EVERY_S = 10; // the stream tells of changes; this corrects what it missed

export function GroupsPage({ cursor, ...shared }: Shared & { cursor: string }) {
  const path = groupsPath(shared.view, cursor, choice.value.ids);
  const { data, problem, refresh } = usePolled<Listed<ListedStudy | JobGroup>>(path, { every_s: EVERY_S });
  const [openedCursor, openCursor] = useState<string | null>(null);
  useEffect(() => shared.news.onChange(refresh), [shared.news, refresh]);
  useEffect(() => openCursor(null), [path]);
  if (data === undefined) {
    return (
      <li class={styles["message"]}>
        <Waiting problem={problem} subject="groups" />
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
      {data.items.map((item) =>
        "values" in item ? (
          <FieldsGroup key={item.where.join()} group={item} {...shared} />
        ) : (
          <StudyGroup key={item.id} study={item} {...shared} />
        ),
      )}
      {openedCursor !== null && <GroupsPage {...shared} cursor={openedCursor} />}
      {next !== null && openedCursor === null && (
        <li class={styles["message"]}>
          <button type="button" onClick={() => openCursor(next)}>
            Older groups
          </button>
        </li>
      )}
    </>
  );
}
