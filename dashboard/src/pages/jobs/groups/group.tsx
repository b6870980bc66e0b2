// A group of jobs: its row, which says how far they are, and its jobs below it while it is open.

import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import type { ListedStudy } from "../../../api/types.ts";
import { number } from "../../../format.ts";
import { listOf } from "../../../query.ts";
import { param } from "../../../url.ts";
import { CountsBar } from "../../studies/counts_bar.tsx";
import { gridLine, progressLine } from "../../studies/state.ts";
import { When } from "../cells.tsx";
import type { Row } from "../row.ts";
import type { Marks } from "../use_marks.ts";
import type { View } from "../view.ts";
import { GroupJobs } from "./group_jobs.tsx";
import styles from "./groups.module.css";
import { NO_STUDY } from "./groups.ts";
import type { News } from "./news.ts";

export interface Shared {
  readonly view: View;
  readonly news: News;
  readonly marks: Marks;
  /** The loaded rows of a group; none when it is closed. */
  readonly onRows: (study: string, rows: readonly Row[]) => void;
  readonly onChange: (change: Partial<View>) => void;
}

const openParam = param("open"); // the ids of the open groups

export function StudyGroup({ study, ...shared }: Shared & { study: ListedStudy }) {
  return (
    <Group {...shared} id={study.id} name={study.name}>
      <span class={styles["counts"]}>
        <CountsBar study={study} />
        <span class="muted">{progressLine(study)}</span>
      </span>
      <span class={styles["grid"]}>{gridLine(study)}</span>
      <span class={styles["best"]}>
        {study.best && (
          <>
            <span class="muted">best {study.best.metric}</span> {number(study.best.value)}
          </>
        )}
      </span>
      <span class="muted">{study.owner}</span>
      <span class="muted">
        <When at={study.created_at} />
      </span>
      <a href={`/studies/${study.id}`} aria-label={`Study ${study.name} ${study.id}`}>
        Study
      </a>
    </Group>
  );
}

export function NoStudyGroup(shared: Shared) {
  return (
    <Group {...shared} id={NO_STUDY} name="No study">
      <span class={styles["about"]}>Jobs that were submitted by themselves</span>
    </Group>
  );
}

interface GroupProps extends Shared {
  id: string;
  name: string;
  children: ComponentChildren;
}

function Group({ id, name, children, ...shared }: GroupProps) {
  const openIds = listOf(openParam.value);
  const isOpen = openIds.includes(id);
  const bodyId = useId();
  const toggle = (): void =>
    openParam.set((isOpen ? openIds.filter((other) => other !== id) : [...openIds, id]).join());
  return (
    <li class={styles["group"]}>
      <div class={styles["row"]}>
        <button
          type="button"
          class={styles["name"]}
          aria-expanded={isOpen}
          aria-controls={isOpen ? bodyId : undefined}
          onClick={toggle}
        >
          <span aria-hidden="true">{isOpen ? "▾" : "▸"}</span> <bdi>{name}</bdi>
        </button>
        {children}
      </div>
      {isOpen && (
        <div id={bodyId}>
          <GroupJobs study={id} name={name} {...shared} />
        </div>
      )}
    </li>
  );
}
