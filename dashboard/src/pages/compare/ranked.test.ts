import assert from "node:assert/strict";
import { test } from "node:test";
import type { Job } from "../../api/types.ts";
import { resultsAmong, settingsAmong } from "./fields.ts";
import { coloured, grouped } from "./groups.ts";
import { job } from "./job.fixture.ts";
import { ranked } from "./ranked.ts";
import { runsOf } from "./runs.ts";

const JOBS = [
  job("a", { spec: { batch_size: 32 }, summary: { val_loss: 0.5, best_epoch: 3 } }),
  job("b", { spec: { batch_size: 64 }, summary: { val_loss: 0.2 } }),
  job("c", { spec: { batch_size: 32 }, summary: { val_loss: 0.1, best_epoch: 5 } }),
  job("d", { spec: { batch_size: 16 }, summary: null }),
];
const RESULTS = resultsAmong(JOBS);
const RUNS = runsOf(
  JOBS.map(({ id }) => id),
  new Map(JOBS.map((one): [string, Job] => [one.id, one])),
  [],
  { hidden: new Set(), best: null },
);
const field = (key: string) => RESULTS.find((one) => one.key === key) as (typeof RESULTS)[number];
const shown = (rows: ReturnType<typeof ranked>) => rows.map(({ key, name, value }) => [key, name, value]);

test("the best run comes first, and a run without the result not at all", () => {
  assert.deepEqual(shown(ranked(RUNS, [], field("val_loss"))), [
    ["c", "3 c", 0.1],
    ["b", "2 b", 0.2],
    ["a", "1 a", 0.5],
  ]);
});

test("a result that is neither good nor bad falls", () => {
  assert.deepEqual(
    ranked(RUNS, [], field("best_epoch")).map(({ value }) => value),
    [5, 3],
  );
});

test("a group has the mean of the runs that count", () => {
  const groups = grouped(RUNS, "batch_size", settingsAmong(JOBS).differing);
  const runs = coloured(RUNS, groups);
  const values = (of: typeof runs) => ranked(of, groups, field("val_loss")).map(({ name, value }) => [name, value]);
  assert.deepEqual(values(runs), [
    ["64", 0.2],
    ["32, n 2", 0.3],
  ]);
  assert.deepEqual(values(runs.filter(({ id }) => id !== "a")), [
    ["32", 0.1],
    ["64", 0.2],
  ]);
});
