import assert from "node:assert/strict";
import { test } from "node:test";
import type { CellReport } from "../../api/types.ts";
import { columnsOf, nextSort, repeatsText, shownMetrics, sortedCells } from "./cell_columns.ts";
import { cell, interval, report, SCALING, SCRIPTS } from "./study.fixture.ts";

const cellText = (of: CellReport, key: string): string | undefined =>
  columnsOf(report([of]))
    .find((column) => column.key === key)
    ?.format(of);

test("columns in which no cell has a value are left out", () => {
  assert.deepEqual(
    columnsOf(SCALING).map(({ key }) => key),
    ["values.gpus", "values.batch_size", "repeats", "wall_s", "speedup"],
  );
});

test("hosts are shown if a cell has more than one", () => {
  const keys = columnsOf(report([cell({ gpus: 8 }, { hosts: 2 })])).map(({ key }) => key);
  assert.ok(keys.includes("hosts"));
});

test("repeats show how many succeeded, failed or are to come", () => {
  assert.equal(repeatsText(cell({}), 3), "3");
  assert.equal(
    repeatsText(cell({}, { repeats: 1, failed: 1, unfinished: 1 }), 3),
    "1 of 3, 1 failed or cancelled, 1 to come",
  );
  const failures = [{ end_reason: "out_of_memory" as const, jobs: 3, error: null }];
  assert.equal(
    repeatsText(cell({}, { repeats: 0, failed: 3, failures }), 3),
    "0 of 3, 3 failed or cancelled (out of memory)",
  );
});

test("the speed-up has both ratios, and the exchange its share", () => {
  const both = cell(
    {},
    { speedup: 0.86, throughput_speedup: 1.16, allreduce_share: interval(0.41), epoch_s: interval(4) },
  );
  assert.deepEqual(
    ["speedup", "throughput_speedup", "allreduce_share", "epoch_s"].map((key) => cellText(both, key)),
    ["0.86", "1.16", "41 %", "4 s"],
  );
});

test("repeats have a mark if one of them stalled", () => {
  const speeds = {
    wall_s: null,
    samples_per_s: null,
    time_to_target_s: null,
    gpu_hours_to_target: null,
    gpu_hours: null,
  };
  assert.equal(repeatsText(cell({}, { with_outliers: speeds }), 3), "3*");
  assert.equal(
    repeatsText(cell({}, { with_outliers: speeds, repeats: 2, failed: 1 }), 3),
    "2* of 3, 1 failed or cancelled",
  );
});

test("a difference in accuracy says whether it is more than chance", () => {
  const agreement = (agrees: boolean | null) => ({ difference: -0.012, low: null, high: null, agrees });
  assert.equal(cellText(cell({}, { accuracy_agreement: agreement(true) }), "accuracy_agreement"), "−0.0120");
  assert.equal(cellText(cell({}, { accuracy_agreement: agreement(false) }), "accuracy_agreement"), "−0.0120 differs");
  assert.equal(cellText(cell({}, { accuracy_agreement: agreement(null) }), "accuracy_agreement"), "−0.0120 ?");
});

test("loss curves say how far they are from the baseline, and whether that is more than chance", () => {
  const agreement = (difference: number | null, relative: number | null, agrees: boolean | null) => ({
    epochs: 3,
    chance: null,
    difference,
    relative,
    agrees,
  });
  const compared = { loss: agreement(0.1, 0.004, true), val_loss: agreement(0.2, 0.123, false) };
  const text = cellText(cell({}, { loss_agreement: compared }), "loss_agreement");
  assert.equal(text?.replaceAll("\u00a0", " "), "loss 0.4 %, val loss 12 % differs");
  const unclear = { loss: agreement(null, null, false), val_loss: agreement(0.25, null, null) };
  assert.equal(cellText(cell({}, { loss_agreement: unclear }), "loss_agreement"), "loss diverged, val loss 0.25 ?");
});

test("cells without a figure sort last in both directions, and cells keep their positions in the grid", () => {
  const cells = [
    cell({ gpus: 1 }),
    cell({ gpus: 2 }, { wall_s: interval(2) }),
    cell({ gpus: 3 }, { wall_s: interval(9) }),
  ];
  const places = (sort: string): number[] =>
    sortedCells(report(cells), columnsOf(report(cells)), sort).map(([, position]) => position);
  assert.deepEqual(places("wall_s"), [1, 2, 0]);
  assert.deepEqual(places("-wall_s"), [2, 1, 0]);
  assert.deepEqual(places(""), [0, 1, 2]);
  assert.deepEqual(places("nonsense"), [0, 1, 2]);
});

test("clicks on a header sort rising, then falling, then not at all", () => {
  assert.equal(nextSort("", "wall_s"), "wall_s");
  assert.equal(nextSort("wall_s", "wall_s"), "-wall_s");
  assert.equal(nextSort("-wall_s", "wall_s"), "");
  assert.equal(nextSort("wall_s", "gpu_hours"), "gpu_hours");
});

test("the goal stands before other figures, and other metrics after them", () => {
  assert.deepEqual(
    columnsOf(SCRIPTS).map(({ key, label, bestKey }) => [key, label, bestKey]),
    [
      ["values.params.lr", "params.lr", undefined],
      ["repeats", "repeats", undefined],
      ["metrics.val_mae", "val_mae", "goal"],
      ["gpu_hours", "slot time", undefined],
      ["metrics.iou", "iou", undefined],
      ["metrics.mae", "mae", undefined],
    ],
  );
});

test("of many metrics the goal and a few others have columns, and those that were chosen", () => {
  const metrics = Object.fromEntries(Array.from({ length: 20 }, (_, place) => [`m${place}`, interval(place)]));
  const many = report([cell({}, { metrics })], { goal: { metric: "m19", mode: "max" } });
  assert.deepEqual(shownMetrics(many, ["m12"]), [
    "metrics.m19",
    "metrics.m0",
    "metrics.m1",
    "metrics.m2",
    "metrics.m3",
    "metrics.m4",
    "metrics.m12",
  ]);
});
