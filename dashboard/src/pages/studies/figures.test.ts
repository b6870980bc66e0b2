import assert from "node:assert/strict";
import { test } from "node:test";
import type { CellReport } from "../../api/types.ts";
import { duration, number } from "../../format.ts";
import {
  chosenFigure,
  estimateOf,
  estimateText,
  figuresOf,
  goalFigure,
  intervalText,
  othersKey,
  valueText,
} from "./figures.ts";
import { cell, interval, report, SCALING, SCRIPTS } from "./study.fixture.ts";

test("the interval of a speed-up comes from the cell's own time", () => {
  assert.deepEqual(estimateOf(SCALING, SCALING.cells[2] as CellReport, "speedup"), {
    value: 2,
    low: 10 / 6,
    high: 10 / 4,
  });
});

test("a speed-up has no interval if its time has none, or one that reaches zero", () => {
  for (const wall_s of [interval(5), interval(5, 6)]) {
    const cells = [
      cell({ gpus: 1 }, { wall_s: interval(10, 1), speedup: 1 }),
      cell({ gpus: 2 }, { wall_s, speedup: 2 }),
    ];
    const estimate = estimateOf(report(cells), cells[1] as CellReport, "speedup");
    assert.deepEqual(estimate, { value: 2, low: null, high: null });
  }
});

test("a figure that a cell does not have is null", () => {
  assert.equal(estimateOf(SCALING, SCALING.cells[3] as CellReport, "wall_s"), null);
  assert.equal(estimateOf(SCALING, SCALING.cells[3] as CellReport, "speedup"), null);
});

test("only figures that at least one cell has are offered", () => {
  assert.deepEqual(
    figuresOf(SCALING).map(({ key }) => key),
    ["wall_s", "speedup"],
  );
});

test("an interval is written with two digits, and without an interval the mean stands alone", () => {
  assert.equal(intervalText(interval(0.8034, 0.3398), duration), "0.8 s ± 0.34 s");
  assert.equal(intervalText(interval(0.9733, 0.01656), number), "0.9733 ± 0.017");
  assert.equal(intervalText(interval(8, 0), number), "8 ± 0");
  assert.equal(intervalText(interval(0.8034), duration), "0.8 s");
  assert.equal(intervalText(null, duration), "–");
  assert.equal(estimateText({ value: 2, low: 1.5, high: 3 }, number), "2 (1.5 to 3)");
});

test("a cell is named by its values, without the excluded fields", () => {
  const named = cell({ gpus: 2, "dataset.fraction": 0.5, model: { name: "mlp" } });
  assert.equal(othersKey(named), 'GPUs 2, dataset fraction 0.5, model {"name":"mlp"}');
  assert.equal(othersKey(named, ["gpus", "model"]), "dataset fraction 0.5");
  assert.equal(valueText(null), "null");
});

test("every metric of the cells is a figure, better as the goal or its name says, and the goal comes first", () => {
  assert.deepEqual(
    figuresOf(SCRIPTS).map(({ key, better }) => [key, better]),
    [
      ["gpu_hours", "less"],
      ["metrics.val_mae", "less"],
      ["metrics.iou", "more"],
      ["metrics.mae", "less"],
    ],
  );
  assert.equal(estimateOf(SCRIPTS, SCRIPTS.cells[1] as CellReport, "metrics.val_mae")?.value, 0.01);
});

test("the figure is the chosen one, else the goal, or the time where GPUs vary", () => {
  assert.equal(chosenFigure("metrics.iou", SCRIPTS).key, "metrics.iou");
  assert.equal(chosenFigure("metrics.unknown", SCRIPTS).key, "metrics.val_mae");
  assert.equal(chosenFigure("", SCALING).key, "wall_s");
  assert.equal(goalFigure(SCALING).key, "val_accuracy");
});
