import assert from "node:assert/strict";
import { test } from "node:test";
import type { Ledger } from "../../../api/types.ts";
import { itemsOf, noneOf } from "./ledger_items.ts";

const waits = { waited_s: 0, waited_in_slurm_s: 0 };
const ledger: Ledger = { leased_s: 10, items: { launch: 1, useful: 6, lost: 3, stalled: 0 }, ...waits };

test("items that took time have a share and come in the order of the bar", () => {
  assert.deepEqual(
    itemsOf(ledger).map(({ key, share }) => [key, share]),
    [
      ["useful", 0.6],
      ["launch", 0.1],
      ["lost", 0.3],
    ],
  );
});

test("items that took no time are listed by name", () => {
  assert.ok(noneOf(ledger).includes("stalled"));
  assert.ok(!noneOf(ledger).includes("lost"));
});

test("a job that held no slots has no items", () => {
  assert.deepEqual(itemsOf({ leased_s: 0, items: {}, ...waits }), []);
});
