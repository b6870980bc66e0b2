// The ledger of a job's slots: a bar, and a table that explains each part.

import type { Ledger } from "../../../api/types.ts";
import { duration, percent } from "../../../format.ts";
import { Panel } from "../../../parts/panel.tsx";
import styles from "./ledger.module.css";
import { type Item, itemsOf, noneOf } from "./ledger_items.ts";

interface Props {
  ledger: Ledger;
  /** "GPU" if the job's slots are known to be GPUs, else "slot". */
  unit: string;
  isComplete: boolean;
}

export function LedgerPanel({ ledger, unit, isComplete }: Props) {
  const items = itemsOf(ledger);
  const unusedNames = noneOf(ledger);
  return (
    <Panel title={`Where the ${unit} time went`} id="ledger">
      {items.length === 0 ? (
        <p class="muted">No data: the job has not held any slots.</p>
      ) : (
        <div class={styles["ledger"]}>
          <p class="muted">
            {duration(ledger.leased_s)} of {unit} time{isComplete ? "" : " so far"}, from the lease of the slots to
            their return, over all attempts
          </p>
          <Waiting ledger={ledger} />
          <Bar items={items} />
          <Table items={items} unit={unit} />
          {unusedNames.length > 0 && <p class="muted">No time on: {unusedNames.join(", ")}.</p>}
        </div>
      )}
    </Panel>
  );
}

function Waiting({ ledger }: { ledger: Ledger }) {
  const { waited_s: waitedS, waited_in_slurm_s: inSlurmS } = ledger;
  if (waitedS < 1) return null;
  const inSlurm = inSlurmS > 0 ? `, ${duration(inSlurmS)} of that in Slurm` : "";
  return <p class="muted">{`Before that it waited ${duration(waitedS)}${inSlurm}.`}</p>;
}

function Bar({ items }: { items: readonly Item[] }) {
  return (
    <div class={styles["bar"]} aria-hidden="true">
      {items.map(({ key, name, share, seconds }) => (
        <span
          key={key}
          class={`${styles["part"]} ${styles[key]}`}
          style={{ flexGrow: share }}
          title={`${name}: ${duration(seconds)}, ${percent(share, 1)}`}
        >
          {share > 0.1 && `${name} ${percent(share)}`}
        </span>
      ))}
    </div>
  );
}

function Table({ items, unit }: { items: readonly Item[]; unit: string }) {
  const longestFirst = [...items].sort((a, b) => b.seconds - a.seconds);
  return (
    <table class={styles["table"]}>
      <thead>
        <tr>
          <th scope="col">Part</th>
          <th scope="col" class="figure">
            {unit}-seconds
          </th>
          <th scope="col" class="figure">
            Share
          </th>
          <th scope="col">What it is</th>
        </tr>
      </thead>
      <tbody>
        {longestFirst.map(({ key, name, meaning, seconds, share }) => (
          <tr key={key} title={meaning}>
            <th scope="row">
              <span class={`${styles["swatch"]} ${styles[key]}`} aria-hidden="true" />
              {name}
            </th>
            <td class="figure">
              {seconds.toLocaleString("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 })}
            </td>
            <td class="figure">{percent(share, 1)}</td>
            <td class={styles["meaning"]}>{meaning}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
