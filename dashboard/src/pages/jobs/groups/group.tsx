// A group of jobs: its row, which says how far they are, and its jobs below it while it is open.

import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import { get } from "../../../api/client.ts";
import type { Job, JobGroup, Listed, ListedStudy } from "../../../api/types.ts";
import { number } from "../../../format.ts";
import { listOf } from "../../../query.ts";
import { param } from "../../../url.ts";
import { CountsBar } from "../../studies/counts_bar.tsx";
import { type Counted, gridLine, progressLine } from "../../studies/state.ts";
import { When } from "../cells.tsx";
import { type Row, rowOf } from "../row.ts";
import type { Marks } from "../use_marks.ts";
import { comparePath, listPath, type View, withCommas, withoutCommas } from "../view.ts";
import { GroupJobs } from "./group_jobs.tsx";
import styles from "./groups.module.css";
import { NO_STUDY, nameOf, viewOfGroup } from "./groups.ts";
import type { News } from "./news.ts";

export interface Shared {
  readonly view: View;
  readonly news: News;
  readonly marks: Marks;
  /** The loaded rows of a group; none when it is closed. */
  readonly onRows: (id: string, rows: readonly Row[]) => void;
  readonly onChange: (change: Partial<View>) => void;
}

const openParam = param("open"); // the ids of the open groups

export function StudyGroup({ study, ...shared }: Shared & { study: ListedStudy }) {
  return (
    <Group {...shared} id={study.id} name={study.name} own={viewOfGroup(shared.view, { study: study.id })}>
      <Counts of={study} />
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
    <Group {...shared} id={NO_STUDY} name="No study" own={viewOfGroup(shared.view, { study: NO_STUDY })}>
      <span class={styles["about"]}>Jobs that were submitted by themselves</span>
    </Group>
  );
}

const MOST_SELECTED = 500; // jobs of one page

export function FieldsGroup({ group, ...shared }: Shared & { group: JobGroup }) {
  const { view, marks } = shared;
  const name = nameOf(group, view.group);
  const own = viewOfGroup(view, group);
  const select = async (): Promise<void> => {
    const { items } = await get<Listed<Job>>(listPath(own, MOST_SELECTED));
    marks.add(items.map((job) => rowOf(job)));
  };
  const metrics = (group.metrics ?? []).filter(({ n }) => n > 0);
  return (
    <Group {...shared} id={group.where.join(" and ")} name={name} own={own} kind="fields">
      <Counts of={{ counts: group.statuses, jobs: group.jobs }} />
      <span class={styles["means"]}>
        {metrics.map(({ name, mean, min, max, n }) => {
          const range = `${number(min)} to ${number(max)}, n ${n}`;
          return (
            <span key={name} title={range}>
              <span class="muted">mean {name}</span> {number(mean)}{" "}
              {metrics.length === 1 && <span class="muted">{range}</span>}
            </span>
          );
        })}
      </span>
      <span class="muted">
        <When at={group.newest_at} />
      </span>
      <span class={styles["tools"]}>
        <a href={comparePath(own)} aria-label={`Compare ${name}`}>
          Compare
        </a>
        <button
          type="button"
          aria-label={`Select ${name}`}
          disabled={group.jobs > MOST_SELECTED}
          title={group.jobs > MOST_SELECTED ? `At most ${MOST_SELECTED} jobs at once` : undefined}
          onClick={() => void select()}
        >
          Select
        </button>
      </span>
    </Group>
  );
}

function Counts({ of }: { of: Counted }) {
  return (
    <span class={styles["counts"]}>
      <CountsBar study={of} />
      <span class="muted">{progressLine(of)}</span>
    </span>
  );
}

interface GroupProps extends Shared {
  id: string;
  name: string;
  /** The view of its jobs. */
  own: View;
  kind?: "fields";
  children: ComponentChildren;
}

function Group({ id, name, kind, children, ...shared }: GroupProps) {
  const openIds = listOf(openParam.value).map(withCommas);
  const isOpen = openIds.includes(id);
  const bodyId = useId();
  const toggle = (): void =>
    openParam.set((isOpen ? openIds.filter((other) => other !== id) : [...openIds, id]).map(withoutCommas).join());
  return (
    <li class={styles["group"]}>
      <div class={`${styles["row"]} ${kind === undefined ? "" : styles[kind]}`}>
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
          <GroupJobs id={id} name={name} {...shared} />
        </div>
      )}
    </li>
  );
}
