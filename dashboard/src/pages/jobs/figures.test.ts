import assert from "node:assert/strict";
import { test } from "node:test";
import { figuresOf, inWords, metricOf } from "./figures.ts";
import { rowWith } from "./row.fixture.ts";

const curve = (y: (number | null)[]) => ({ state: "", x: y.map((_, index) => index), y });

test("the first, best and last value leave out gaps", () => {
  const figures = (y: (number | null)[], metric: string) => figuresOf(rowWith(), metric, curve(y));
  assert.deepEqual(figures([null, 0.5, 0.9, 0.7, null], "accuracy"), { first: 0.5, best: 0.9, last: 0.7 });
  assert.deepEqual(figures([0.9, 0.2, 0.4], "loss"), { first: 0.9, best: 0.2, last: 0.4 });
  assert.deepEqual(figures([null], "loss"), { first: null, best: null, last: null });
});

test("the goal of a job says which value is best", () => {
  const row = rowWith({ goal: { metric: "val_iou", mode: "min" } });
  assert.equal(figuresOf(row, "val_iou", curve([0.3, 0.5])).best, 0.3);
});

test("a metric without a curve has the figures of the job", () => {
  const row = rowWith({ metrics: { wer: { last: 0.3, best: 0.2 } } });
  assert.deepEqual(figuresOf(row, "wer", undefined), { first: null, best: 0.2, last: 0.3 });
  assert.deepEqual(figuresOf(row, null, undefined), { first: null, best: null, last: null });
});

test("a row shows the chosen metric, or else the one that counts for its job", () => {
  const row = rowWith({ goal_metric: "val_mae" });
  assert.deepEqual([metricOf(row, "loss"), metricOf(row, "")], ["loss", "val_mae"]);
});

test("a curve is described by its first, best and last value", () => {
  assert.equal(inWords("loss", { first: 2, best: 0.25, last: 0.5 }), "loss: first 2, best 0.25, last 0.5");
  assert.equal(inWords("loss", { first: null, best: null, last: null }), "loss: –");
});
