import assert from "node:assert/strict";
import { test } from "node:test";
import { RESULTS } from "./fields.ts";
import { job } from "./job.fixture.ts";
import { fadedIds, parseBest, runsOf, shortNames, toggled } from "./runs.ts";

const ALL_SHOWN = { hidden: new Set<string>(), best: null };

function jobsWith(accuracies: Readonly<Record<string, number | null>>) {
  return new Map(
    Object.entries(accuracies).map(([id, val_accuracy]) => [
      id,
      job(id, { summary: val_accuracy === null ? null : { val_accuracy } }),
    ]),
  );
}

test("a run keeps its number and colour when another one is missing or hidden", () => {
  const jobs = jobsWith({ a: 0.1, c: 0.3 });
  const runs = runsOf(["a", "b", "c"], jobs, RESULTS, { ...ALL_SHOWN, hidden: new Set(["a"]) });
  assert.deepEqual(
    runs.map(({ id, number, colour, isHidden }) => [id, number, colour, isHidden]),
    [
      ["a", 1, "run-0", true],
      ["c", 3, "run-2", false],
    ],
  );
});

test("only the chosen number of best runs is shown", () => {
  const jobs = jobsWith({ a: 0.1, b: 0.9, c: null, d: 0.5 });
  const runs = runsOf([...jobs.keys()], jobs, RESULTS, { ...ALL_SHOWN, best: { count: 2, key: "val_accuracy" } });
  assert.deepEqual(
    runs.filter(({ isHidden }) => !isHidden).map(({ id }) => id),
    ["b", "d"],
  );
});

test("a choice of the best runs by an unknown field hides nothing", () => {
  const jobs = jobsWith({ a: 0.1, b: 0.9 });
  const runs = runsOf([...jobs.keys()], jobs, RESULTS, { ...ALL_SHOWN, best: { count: 1, key: "nothing" } });
  assert.ok(runs.every(({ isHidden }) => !isHidden));
});

test("runs outside of a range fade, and so do runs without a value", () => {
  const jobs = jobsWith({ a: 0.1, b: 0.9, c: null });
  const runs = runsOf([...jobs.keys()], jobs, RESULTS, ALL_SHOWN);
  const brushes = new Map([["val_accuracy", { from: 0.5, to: 1 }]]);
  assert.deepEqual([...fadedIds(runs, RESULTS, brushes)], ["a", "c"]);
  assert.equal(fadedIds(runs, RESULTS, new Map()).size, 0);
});

test("names lose the first words that they share, but a number keeps the word before it", () => {
  assert.deepEqual(shortNames(["scan gpus 1 batch 32", "scan gpus 2 batch 32"]), [
    "gpus 1 batch 32",
    "gpus 2 batch 32",
  ]);
  assert.deepEqual(shortNames(["scan mlp", "scan lenet5"]), ["mlp", "lenet5"]);
  assert.deepEqual(shortNames(["scan", "scan"]), ["scan", "scan"]);
  assert.deepEqual(shortNames(["scan wide"]), ["scan wide"]);
  assert.deepEqual(shortNames(["1 a", "2 a"]), ["1 a", "2 a"]);
});

test("a choice of the best runs is read as a count and a field, and other texts as null", () => {
  assert.deepEqual(parseBest("5:val_loss"), { count: 5, key: "val_loss" });
  assert.deepEqual(parseBest("5:val/iou:0"), { count: 5, key: "val/iou:0" });
  for (const nonsense of ["", "0:val_loss", "x:val_loss", "5", "5:"]) assert.equal(parseBest(nonsense), null);
});

test("a toggle adds an item, or removes it if it is there", () => {
  assert.deepEqual(toggled(["a"], "b"), ["a", "b"]);
  assert.deepEqual(toggled(["a", "b"], "a"), ["b"]);
});

test("a run has the colour that a person chose; a place that the palette lacks counts as none", () => {
  const jobs = jobsWith({ a: 0.1, b: 0.2, c: 0.3, d: 0.4 });
  const colours = new Map(Object.entries({ a: "7", b: "8", c: "red", d: "-1" }));
  const runs = runsOf([...jobs.keys()], jobs, RESULTS, { ...ALL_SHOWN, colours });
  assert.deepEqual(
    runs.map(({ colour }) => colour),
    ["run-7", "run-1", "run-2", "run-3"],
  );
});
