// The accounts in the sequence of their turns: what each used lately, against what it is entitled to.

import type { Queue, QueueAccount } from "../../api/types.ts";
import { countText, number, percent } from "../../format.ts";
import { Badge } from "../../parts/badge.tsx";
import { Panel } from "../../parts/panel.tsx";
import { pathWith } from "../../query.ts";
import styles from "./accounts.module.css";

export function Accounts({ queue }: { queue: Queue }) {
  const most = Math.max(...queue.accounts.map((one) => Math.max(one.used_part, one.entitled_part)), 0.01);
  return (
    <Panel title="Whose turn it is" flush>
      <div class={styles["scroller"]} tabIndex={0} role="region" aria-label="Accounts">
        <table>
          <thead>
            <tr>
              <th scope="col" class="figure">
                Turn
              </th>
              <th scope="col">User</th>
              <th scope="col">Project</th>
              <th scope="col">Used lately, and entitled to</th>
              <th scope="col" class="figure">
                Waiting
              </th>
              <th scope="col" class="figure">
                Slots
              </th>
            </tr>
          </thead>
          <tbody>
            {queue.accounts.map((account, index) => (
              <tr key={`${account.project} ${account.user}`}>
                <td class="figure">{index + 1}</td>
                <th scope="row" class={styles["user"]}>
                  <a href={pathWith("/queue", { owner: account.user, project: account.project })}>
                    <bdi>{account.user}</bdi>
                  </a>
                </th>
                <td>{account.project}</td>
                <td class={styles["share"]}>
                  <Share account={account} most={most} />
                </td>
                <td class="figure">{number(account.queued)}</td>
                <td class="figure">{number(account.running_slots)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {queue.more_accounts > 0 && (
        <p class={styles["more"]}>{countText(queue.more_accounts, "more account")}, whose turns come later.</p>
      )}
    </Panel>
  );
}

/** The bar is what the account used; the line across it is what it is entitled to. The text says the same. */
function Share({ account, most }: { account: QueueAccount; most: number }) {
  const width = (part: number): string => `${(100 * Math.min(part / most, 1)).toFixed(1)}%`;
  return (
    <span class={styles["row"]}>
      <span class={styles["bar"]} aria-hidden="true">
        <span
          class={`${styles["used"]} ${account.is_over ? styles["over"] : ""}`}
          style={{ width: width(account.used_part) }}
        />
        <span class={styles["entitled"]} style={{ left: width(account.entitled_part) }} />
      </span>
      <span class={styles["figures"]}>
        {percent(account.used_part)} of {percent(account.entitled_part)}
      </span>
      {account.is_over && <Badge tone="warn" sign="▲" text="over the share" />}
    </span>
  );
}
