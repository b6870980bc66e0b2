import assert from "node:assert/strict";
import { test } from "node:test";
import { figuresOf, inWords, isBestLeast } from "./figures.ts";

test("the least value is best for losses, errors and times, the greatest for other metrics", () => {
  assert.deepEqual(["loss", "val_loss", "top5_error", "epoch_s", "step_ms"].map(isBestLeast), Array(5).fill(true));
  assert.deepEqual(["val_accuracy", "samples_per_s", "auc"].map(isBestLeast), Array(3).fill(false));
});

test("the first, best and last value leave out gaps", () => {
  assert.deepEqual(figuresOf([null, 0.5, 0.9, 0.7, null], "accuracy"), { first: 0.5, best: 0.9, last: 0.7 });
  assert.deepEqual(figuresOf([0.9, 0.2, 0.4], "loss"), { first: 0.9, best: 0.2, last: 0.4 });
  assert.deepEqual(figuresOf([null], "loss"), { first: null, best: null, last: null });
});

test("a curve is described by its first, best and last value", () => {
  assert.equal(inWords("loss", { first: 2, best: 0.25, last: 0.5 }), "loss: first 2, best 0.25, last 0.5");
  assert.equal(inWords("loss", { first: null, best: null, last: null }), "loss: –");
});
