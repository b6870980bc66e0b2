// The items of a job's ledger, ready to show. Used by `ledger.tsx`.

import type { Ledger, LedgerItem } from "../../../api/types.ts";

export interface Item {
  readonly key: LedgerItem;
  readonly name: string;
  /** What the slots did in this time. */
  readonly meaning: string;
  readonly seconds: number;
  readonly share: number;
}

// In the order of the bar: training, overhead, waste.
const ITEMS: readonly (readonly [LedgerItem, string, string])[] = [
  ["useful", "useful", "Computing and validation up to the best epoch"],
  ["data_wait", "waiting for data", "Steps up to the best epoch that waited for their samples"],
  [
    "communication",
    "communication",
    "Steps up to the best epoch that exchanged gradients, or waited for a slower rank",
  ],
  ["saving", "saving", "Checkpoints"],
  ["launch", "launch", "From the lease of the slots to the first line of the first rank"],
  ["set_up", "set-up", "From the first rank's first line to the end of the first step"],
  ["after_best", "after the best epoch", "All epochs after the best one, by the monitored metric"],
  ["lost", "lost", "Steps, validations and checkpoints that a later attempt repeated"],
  ["stalled", "stalled", "Periods without a step, far longer than a step takes"],
  ["idle", "idle", "Everything else: the test and saving at the end of the job, and gaps between the parts"],
];

/** The items that took any time, in the order of the bar. */
export function itemsOf(ledger: Ledger): Item[] {
  return ITEMS.map(([key, name, meaning]) => {
    const seconds = ledger.items[key] ?? 0;
    return { key, name, meaning, seconds, share: seconds / ledger.leased_s };
  }).filter(({ seconds }) => seconds > 0);
}

/** Names of the items that took no time. */
export function noneOf(ledger: Ledger): string[] {
  return ITEMS.filter(([key]) => !ledger.items[key]).map(([, name]) => name);
}
