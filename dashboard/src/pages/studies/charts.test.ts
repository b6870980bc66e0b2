import assert from "node:assert/strict";
import { test } from "node:test";
import { barsOf, costLines, mainField, matrixOf, speedupLines } from "./charts.ts";
import { figureOf } from "./figures.ts";
import { cell, interval, report, SCALING, SCRIPTS } from "./study.fixture.ts";

const time = figureOf("wall_s");

test("charts are drawn over GPUs if they vary, else over the first field", () => {
  assert.equal(mainField(SCALING), "gpus");
  assert.equal(mainField(report([cell({ batch_size: 1, gpus: 2 })])), "gpus");
  assert.equal(mainField(report([cell({ batch_size: 1, seed: 2 })])), "batch_size");
  assert.equal(mainField(report([cell({})])), "");
});

test("bars are grouped by GPU count, with a series for each batch size", () => {
  const { groups, series } = barsOf(SCALING, time);
  assert.deepEqual(groups, ["1", "2"]);
  assert.deepEqual(
    series.map(({ name, values }) => [name, values.map((value) => value?.value ?? null)]),
    [
      ["batch size 32", [10, 5]],
      ["batch size 64", [8, null]],
    ],
  );
});

test("a study that varies nothing has one bar", () => {
  const { groups, series } = barsOf(report([cell({}, { wall_s: interval(3) })]), time);
  assert.deepEqual(groups, ["all"]);
  assert.deepEqual(
    series.map(({ name, values }) => [name, values[0]?.value]),
    [["", 3]],
  );
});

test("lines of speed-up leave out missing points and keep their colour", () => {
  const lines = speedupLines(SCALING);
  assert.deepEqual(
    lines.map(({ name, colour, points }) => [name, colour, points.map(({ x, value }) => [x, value])]),
    [
      [
        "batch size 32",
        "run-0",
        [
          [1, 1],
          [2, 2],
        ],
      ],
      ["batch size 64", "run-1", [[1, 1]]],
    ],
  );
});

test("points of speed-up name the slots as what they are", () => {
  const labels = (device: "cpu" | "gpu") => speedupLines({ ...SCALING, device })[0]?.points.map(({ label }) => label);
  assert.deepEqual(labels("cpu"), ["1 CPU slot", "2 CPU slots"]);
  assert.deepEqual(labels("gpu"), ["1 GPU", "2 GPUs"]);
});

test("the cost chart shows only cells with both an accuracy and slot-hours", () => {
  const both = { val_accuracy: interval(0.9), gpu_hours: interval(2) };
  const lines = costLines(report([cell({ gpus: 1 }, both), cell({ gpus: 2 }, { val_accuracy: interval(0.8) })]));
  assert.deepEqual(
    lines.map(({ name, points }) => [name, points.map(({ x, value }) => [x, value])]),
    [["GPUs 1", [[2, 0.9]]]],
  );
});

test("the matrix shows the mean of the cells that differ only in other fields", () => {
  const cells = [1, 2].flatMap((gpus) =>
    [7, 8].map((seed) => cell({ gpus, batch_size: 32, seed }, { wall_s: interval(gpus * seed) })),
  );
  const { rows, columns, cell: at } = matrixOf(report(cells), ["gpus", "batch_size"], time);
  assert.deepEqual([rows, columns], [["1", "2"], ["32"]]);
  assert.deepEqual(at("1", "32"), { mean: 7.5, count: 2, share: 0 });
  assert.deepEqual(at("2", "32"), { mean: 15, count: 2, share: 1 });
  assert.equal(at("3", "32"), null);
});

test("the cost of a script's goal is drawn by its parameters", () => {
  assert.deepEqual(
    costLines(SCRIPTS).map(({ name, points }) => [name, points.map(({ x, value }) => [x, value])]),
    [
      ["params.lr 0.1", [[1, 0.1]]],
      ["params.lr 0.01", [[2, 0.01]]],
    ],
  );
});
