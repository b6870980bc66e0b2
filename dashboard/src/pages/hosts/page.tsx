// The hosts, what they do, and what waits for them.

import { usePolled } from "../../api/polled.ts";
import type { Host, Me } from "../../api/types.ts";
import { number } from "../../format.ts";
import { Choice } from "../../parts/choice.tsx";
import { Notice, ProblemNotice, Waiting } from "../../parts/notice.tsx";
import { Panel } from "../../parts/panel.tsx";
import { param } from "../../url.ts";
import { HostCard } from "./host_card.tsx";
import { HostRows } from "./host_rows.tsx";
import { keptFor, NARROWINGS, narrowed } from "./hosts.ts";
import styles from "./page.module.css";
import { QueuePanel } from "./queue.tsx";
import { Totals } from "./totals.tsx";
import { useHosts, useJobNames } from "./use_hosts.ts";

const CARDS = 12; // with more hosts than these a table is easier to read
const MOST_CARDS = 60;

export function HostsPage() {
  const { hosts, hasMore, problem, refresh } = useHosts();
  const me = usePolled<Me>("/v1/me", { every_s: Number.POSITIVE_INFINITY }).data;
  const names = useJobNames(hosts ?? []);
  if (hosts === undefined) return <Waiting problem={problem} what="the hosts" />;
  return (
    <div class={styles["page"]}>
      <h1>Hosts</h1>
      <ProblemNotice problem={problem} />
      <Totals hosts={hosts} />
      {hasMore && <Notice kind="warn">There are more hosts; these are the first {hosts.length}.</Notice>}
      {hosts.length === 0 ? (
        <Notice title="No host yet">
          A host appears when a worker starts on it: <code>hora up</code> starts one here.
        </Notice>
      ) : (
        <HostList hosts={hosts} names={names} isAdmin={me?.scope === "admin"} onChanged={refresh} />
      )}
      <QueuePanel kept={keptFor(hosts)} />
    </div>
  );
}

interface ListProps {
  hosts: readonly Host[];
  names: ReadonlyMap<string, string>;
  isAdmin: boolean;
  onChanged: () => void;
}

function HostList({ hosts, names, isAdmin, onChanged }: ListProps) {
  const text = param("q");
  const narrowing = param("state");
  const view = param("view", hosts.length > CARDS ? "table" : "cards");
  const opened = param("host");
  const shown = narrowed(hosts, text.value, narrowing.value);
  const card = (host: Host) => ({ host, names, isAdmin, onChanged });
  const open = hosts.find(({ name }) => name === opened.value);
  return (
    <>
      <div class={styles["tools"]}>
        <input
          type="search"
          aria-label="Search hosts"
          placeholder="Name, address, GPU or job"
          value={text.value}
          onInput={(event) => text.set(event.currentTarget.value)}
        />
        <select
          aria-label="Which hosts"
          value={narrowing.value}
          onChange={(event) => narrowing.set(event.currentTarget.value)}
        >
          {NARROWINGS.map(([value, words]) => (
            <option key={value} value={value}>
              {words}
            </option>
          ))}
        </select>
        <Choice
          label="How to show them"
          value={view.value === "table" ? "table" : "cards"}
          options={[
            ["cards", "Cards"],
            ["table", "Table"],
          ]}
          onChange={view.set}
        />
        <span class="muted" role="status">
          {shown.length < hosts.length && `${number(shown.length)} of ${number(hosts.length)} hosts`}
        </span>
      </div>
      {shown.length === 0 && (
        <Notice>
          No host is like that. <a href="/hosts">Show all</a>
        </Notice>
      )}
      {view.value === "table" ? (
        <>
          {open !== undefined && <HostCard {...card(open)} onClose={() => opened.set("")} />}
          <Panel title={shown.length === 1 ? "1 host" : `${number(shown.length)} hosts`} flush>
            {/* What was searched for begins at its top. */}
            <HostRows key={`${narrowing.value} ${text.value}`} hosts={shown} names={names} opened={opened.value} />
          </Panel>
        </>
      ) : (
        <div class={styles["cards"]}>
          {shown.slice(0, MOST_CARDS).map((host) => (
            <HostCard key={host.name} {...card(host)} />
          ))}
          {shown.length > MOST_CARDS && (
            <Notice>{shown.length - MOST_CARDS} more hosts: search for them, or show them as a table.</Notice>
          )}
        </div>
      )}
    </>
  );
}
