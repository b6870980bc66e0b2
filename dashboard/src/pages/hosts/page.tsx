// The page of hosts.

import { usePolled } from "../../api/polled.ts";
import type { Me } from "../../api/types.ts";
import { Notice, ProblemNotice, Waiting } from "../../parts/notice.tsx";
import { HostList } from "./host_list.tsx";
import styles from "./page.module.css";
import { Totals } from "./totals.tsx";
import { useHosts, useJobNames } from "./use_hosts.ts";

export function HostsPage() {
  const { hosts, hasMore, problem, refresh } = useHosts();
  const me = usePolled<Me>("/v1/me", { every_s: Number.POSITIVE_INFINITY }).data;
  const names = useJobNames(hosts ?? []);
  if (hosts === undefined) return <Waiting problem={problem} subject="the hosts" />;
  return (
    <div class={styles["page"]}>
      <h1>Hosts</h1>
      <ProblemNotice problem={problem} />
      <Totals hosts={hosts} />
      {hasMore && <Notice kind="warn">Only the first {hosts.length} hosts are shown.</Notice>}
      {hosts.length === 0 ? (
        <Notice title="No host yet">
          A host appears when a worker starts on it: <code>hora up</code> starts one here.
        </Notice>
      ) : (
        <HostList hosts={hosts} names={names} isAdmin={me?.scope === "admin"} onChanged={refresh} />
      )}
    </div>
  );
}
