// One dataset: its versions, what validation found in them, and how its classes are filled.

import { remove } from "../../api/client.ts";
import { usePolled } from "../../api/polled.ts";
import type { DatasetVersion, DatasetVersions, Me } from "../../api/types.ts";
import { number } from "../../format.ts";
import { Notice, ProblemNotice, Waiting } from "../../parts/notice.tsx";
import { Panel } from "../../parts/panel.tsx";
import { pathWith } from "../../query.ts";
import styles from "../settings/kit.module.css";
import { Action, Page, useMe, When } from "../settings/kit.tsx";
import { classesOf, factsOf } from "./facts.ts";
import { Samples } from "./samples.tsx";

export function DatasetPage({ id: name }: { id: string }) {
  const me = useMe();
  const { data, problem, refresh } = usePolled<DatasetVersions>(`/v1/datasets/${name}?limit=100`, { every_s: 5 });
  return (
    <Page title={name} back={["/datasets", "Datasets"]}>
      {data === undefined ? (
        <Waiting problem={problem} subject="the dataset" />
      ) : (
        <>
          <ProblemNotice problem={problem} />
          {data.description !== "" && (
            <p>
              <bdi>{data.description}</bdi>
            </p>
          )}
          <p>
            <a href={pathWith("/new", { spec: JSON.stringify({ dataset: name }) })}>Train on it</a>
          </p>
          {data.builtin && <Notice>It is built in, and has no versions.</Notice>}
          {data.items.map((version) => (
            <Version key={version.version} version={version} me={me} refresh={refresh} />
          ))}
          {data.next_cursor !== null && <p class="muted">Older versions: hora dataset show {name}</p>}
        </>
      )}
    </Page>
  );
}

function Version({ version, me, refresh }: { version: DatasetVersion; me: Me | undefined; refresh: () => void }) {
  const { name, created_by, status, error } = version;
  const title = `Version ${version.version}`;
  const mayDelete = me !== undefined && (me.scope === "admin" || (me.scope !== "read" && me.user === created_by));
  return (
    <Panel title={title} tools={<span class="muted">{status}</span>}>
      <div class={styles["stack"]}>
        {error !== null && (
          <Notice kind={status === "invalid" ? "bad" : "warn"} title={status === "invalid" ? "Invalid" : "It waits"}>
            {error}
          </Notice>
        )}
        <dl class={styles["facts"]}>
          <dt>Registered</dt>
          <dd>
            <When at={version.created_at} /> by <bdi>{created_by}</bdi>
          </dd>
          {factsOf(version).map(([label, text]) => [
            <dt key={label}>{label}</dt>,
            <dd key={`${label} value`}>
              <bdi>{text}</bdi>
            </dd>,
          ])}
        </dl>
        <Samples version={version} />
        <Classes version={version} />
        {mayDelete && (
          <div class={styles["actions"]}>
            <Action
              text="Delete…"
              of={`${name}@${version.version}`}
              request={() => remove(`/v1/datasets/${name}/versions/${version.version}`)}
              onDone={refresh}
              question={{
                title: `Delete ${name}@${version.version}?`,
                about:
                  "No new job can train on it. Files of an upload are removed later; files below the data roots stay, and those in the caches of hosts until their room is needed.",
              }}
            />
          </div>
        )}
      </div>
    </Panel>
  );
}

function Classes({ version }: { version: DatasetVersion }) {
  const { counts, others } = classesOf(version);
  if (counts.length === 0) return null;
  return (
    <details>
      <summary>Samples of each class</summary>
      <dl class={styles["facts"]}>
        {counts.map(([name, count]) => [
          <dt key={name}>
            <bdi>{name}</bdi>
          </dt>,
          <dd key={`${name} count`}>{number(count)}</dd>,
        ])}
      </dl>
      {others > 0 && <p class="muted">and {number(others)} smaller classes</p>}
    </details>
  );
}
