// The hosts with their filters, as cards or as a table.

import type { Host } from "../../api/types.ts";
import { number } from "../../format.ts";
import { Choice } from "../../parts/choice.tsx";
import { Notice } from "../../parts/notice.tsx";
import { Panel } from "../../parts/panel.tsx";
import { param } from "../../url.ts";
import { HostCard } from "./host_card.tsx";
import styles from "./host_list.module.css";
import { HostRows } from "./host_rows.tsx";
import { NARROWINGS, narrowed } from "./hosts.ts";

const CARDS = 12; // with more hosts, a table is easier to read
const MOST_CARDS = 60;

interface Props {
  hosts: readonly Host[];
  names: ReadonlyMap<string, string>;
  isAdmin: boolean;
  onChanged: () => void;
}

export function HostList({ hosts, names, isAdmin, onChanged }: Props) {
  const text = param("q");
  const narrowing = param("state");
  const view = param("view", hosts.length > CARDS ? "table" : "cards");
  const opened = param("host");
  const shownHosts = narrowed(hosts, text.value, narrowing.value);
  const card = (host: Host) => ({ host, names, isAdmin, onChanged });
  const open = hosts.find(({ name }) => name === opened.value);
  return (
    <>
      <Filters shownCount={shownHosts.length} total={hosts.length} view={view} text={text} narrowing={narrowing} />
      {shownHosts.length === 0 && (
        <Notice>
          No host matches. <a href="/hosts">Show all</a>
        </Notice>
      )}
      {view.value === "table" ? (
        <>
          {open !== undefined && <HostCard {...card(open)} onClose={() => opened.set("")} />}
          <Panel title={shownHosts.length === 1 ? "1 host" : `${number(shownHosts.length)} hosts`} flush>
            {/* The key lets the results of a new search start at the top. */}
            <HostRows key={`${narrowing.value} ${text.value}`} hosts={shownHosts} names={names} opened={opened.value} />
          </Panel>
        </>
      ) : (
        <div class={styles["cards"]}>
          {shownHosts.slice(0, MOST_CARDS).map((host) => (
            <HostCard key={host.name} {...card(host)} />
          ))}
          {shownHosts.length > MOST_CARDS && (
            <Notice>{shownHosts.length - MOST_CARDS} more hosts: search for them, or show them as a table.</Notice>
          )}
        </div>
      )}
    </>
  );
}

type Param = ReturnType<typeof param>;

interface FilterProps {
  shownCount: number;
  total: number;
  view: Param;
  text: Param;
  narrowing: Param;
}

function Filters({ shownCount, total, view, text, narrowing }: FilterProps) {
  return (
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
        label="View of the hosts"
        value={view.value === "table" ? "table" : "cards"}
        options={[
          ["cards", "Cards"],
          ["table", "Table"],
        ]}
        onChange={view.set}
      />
      <span class="muted" role="status">
        {shownCount < total && `${number(shownCount)} of ${number(total)} hosts`}
      </span>
    </div>
  );
}
