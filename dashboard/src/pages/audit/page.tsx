// The audit log, for admins: who changed what, and when. The address has its filters.

import type { AuditEntry } from "../../api/types.ts";
import { UNKNOWN } from "../../format.ts";
import { TypedInput } from "../../parts/typed_input.tsx";
import { pathWith } from "../../query.ts";
import { query, setParams } from "../../url.ts";
import styles from "../settings/kit.module.css";
import { List, Page, When } from "../settings/kit.tsx";
import { detailsOf, pageOf, timeOf } from "../settings/matching.ts";

const FILTERS = [
  ["actor", "User", "text"],
  ["action", "Action, such as job.cancelled", "text"],
  ["subject", "Job, host, …", "text"],
  ["since", "From", "datetime-local"],
  ["until", "Until", "datetime-local"],
] as const;

export function AuditPage() {
  const params = new URLSearchParams(query.value);
  const paramOf = (name: string): string => params.get(name)?.trim() ?? "";
  const asked = Object.fromEntries(
    FILTERS.map(([name, , type]) => [name, type === "text" ? paramOf(name) : timeOf(paramOf(name))]),
  );
  return (
    <Page title="Audit log">
      <div class={styles["filters"]} role="search" aria-label="Audit log">
        {FILTERS.map(([name, label, type]) => (
          <label key={name} class={styles["field"]}>
            <span>{label}</span>
            <TypedInput
              type={type}
              maxLength={255}
              value={paramOf(name)}
              onTyped={(input) => setParams({ [name]: input.value })}
            />
          </label>
        ))}
      </div>
      <List<AuditEntry>
        noun="entries"
        path={pathWith("/v1/audit", { ...asked, limit: 100 })}
        heads={["When", "User", "Action", "What", "Details", "From"]}
        texts={() => []}
        hasSearch={false}
      >
        {(entry) => <Row key={entry.id} entry={entry} />}
      </List>
    </Page>
  );
}

function Row({ entry }: { entry: AuditEntry }) {
  const page = pageOf(entry.action, entry.subject);
  const subject = <bdi class="mono">{entry.subject ?? UNKNOWN}</bdi>;
  return (
    <tr>
      <td>
        <When at={entry.at} />
      </td>
      <th scope="row">
        <a href={pathWith("/audit", { actor: entry.actor })}>
          <bdi>{entry.actor}</bdi>
        </a>
      </th>
      <td>{entry.action}</td>
      <td>{page === null ? subject : <a href={page}>{subject}</a>}</td>
      <td>
        <bdi>{detailsOf(entry.data)}</bdi>
      </td>
      <td class="mono muted" title={`token ${entry.token_id ?? UNKNOWN}, request ${entry.request_id ?? UNKNOWN}`}>
        {entry.address ?? UNKNOWN}
      </td>
    </tr>
  );
}
