// One project: its use, its members, and for an admin its quotas.

import { call, remove } from "../../api/client.ts";
import { usePolled } from "../../api/polled.ts";
import type { Project } from "../../api/types.ts";
import { moment, number } from "../../format.ts";
import { ProblemNotice, Waiting } from "../../parts/notice.tsx";
import { Panel } from "../../parts/panel.tsx";
import { pathWith } from "../../query.ts";
import styles from "../settings/kit.module.css";
import { Action, Field, Form, Page, useMe } from "../settings/kit.tsx";
import { textOf } from "../settings/matching.ts";
import { changesOf, ofQuota, QUOTAS, stateOf } from "./quotas.ts";

export function ProjectPage({ id: name }: { id: string }) {
  const me = useMe();
  const { data: project, problem, refresh } = usePolled<Project>(`/v1/projects/${name}`, { every_s: 10 });
  const isAdmin = me?.scope === "admin";
  return (
    <Page title={name} back={["/projects", "Projects"]}>
      {project === undefined ? (
        <Waiting problem={problem} subject="the project" />
      ) : (
        <>
          <ProblemNotice problem={problem} />
          <Facts project={project} />
          <Members project={project} isAdmin={isAdmin} refresh={refresh} />
          {isAdmin && <Change key={project.revision} project={project} refresh={refresh} />}
        </>
      )}
    </Page>
  );
}

function Facts({ project }: { project: Project }) {
  const { name, usage } = project;
  const facts: readonly (readonly [string, string | null])[] = [
    ["Description", project.description || null],
    ["State", stateOf(project)],
    ["Slots", ofQuota(usage.slots, project.max_slots)],
    ["In the queue", ofQuota(usage.queued, project.max_queued)],
    ["GPU-hours", `${ofQuota(usage.gpu_hours, project.max_gpu_hours)}, until ${moment(usage.renews_at)}`],
    ["Cost", usage.cost == null ? null : `${number(usage.cost)} this month`],
    ["Stored, GB", ofQuota(usage.storage_gb, project.max_storage_gb)],
    ["Highest priority", project.max_priority == null ? null : number(project.max_priority)],
    ["Share of the slots", number(project.share)],
    ["Idle slots", project.idle == null ? null : JSON.stringify(project.idle)],
  ];
  return (
    <Panel
      title="Use"
      tools={[
        <a key="jobs" href={pathWith("/", { project: name })}>
          Its jobs
        </a>,
        <a key="usage" href={pathWith("/usage", { project: name, by: "user" })}>
          Its usage
        </a>,
      ]}
    >
      <dl class={styles["facts"]}>
        {facts
          .filter(([, text]) => text !== null)
          .map(([label, text]) => [
            <dt key={label}>{label}</dt>,
            <dd key={`${label} value`}>
              <bdi>{text}</bdi>
            </dd>,
          ])}
      </dl>
    </Panel>
  );
}

interface Props {
  project: Project;
  refresh: () => void;
}

function Members({ project, isAdmin, refresh }: Props & { isAdmin: boolean }) {
  const path = (user: string): string => `/v1/projects/${project.name}/members/${encodeURIComponent(user)}`;
  return (
    <Panel title="Members">
      <div class={styles["stack"]}>
        {project.members.length === 0 && <p class="muted">Nobody is a member. Admins control all jobs.</p>}
        <ul>
          {project.members.map((user) => (
            <li key={user} class={styles["actions"]}>
              <a href={pathWith("/", { owner: user, project: project.name })}>
                <bdi>{user}</bdi>
              </a>
              {isAdmin && (
                <Action
                  text="Remove…"
                  of={user}
                  request={() => remove(path(user))}
                  onDone={refresh}
                  question={{
                    title: `Remove ${user} from ${project.name}?`,
                    about: "Running jobs go on. If the project is closed, queued jobs of a former member wait.",
                  }}
                />
              )}
            </li>
          ))}
        </ul>
        {isAdmin && (
          <Form
            title="Add a member"
            button="Add"
            send={async (fields) => {
              await call("PUT", path(textOf(fields, "user") ?? ""));
              refresh();
            }}
          >
            <Field label="User" name="user" required about="Members may control all jobs of the project." />
          </Form>
        )}
      </div>
    </Panel>
  );
}

function Change({ project, refresh }: Props) {
  return (
    <Form
      title="Quotas and share"
      button="Save"
      send={async (fields) => {
        await call("PATCH", `/v1/projects/${project.name}`, { body: changesOf(project, fields) });
        refresh();
      }}
    >
      <Field label="Description" name="description" value={project.description} />
      {QUOTAS.map(([name, label]) => (
        <Field key={name} label={label} name={name} type="number" value={project[name]} about="Empty: no limit." />
      ))}
      <Field
        label="Share of the slots"
        name="share"
        type="number"
        value={project.share}
        about="With 2 it gets twice as many slots as a project with 1, while both have work."
      />
      {project.name !== "default" && (
        <>
          <label class={styles["check"]}>
            <input type="checkbox" name="is_open" defaultChecked={project.is_open} />
            Everybody may submit jobs
          </label>
          <label class={styles["check"]}>
            <input type="checkbox" name="is_archived" defaultChecked={project.archived_at !== null} />
            Archived: it takes no new jobs
          </label>
        </>
      )}
      {project.name === "default" && project.is_open && <input type="hidden" name="is_open" value="on" />}
    </Form>
  );
}
