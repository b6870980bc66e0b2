import assert from "node:assert/strict";
import { test } from "node:test";
import { figuresOf, inWords, isBestLeast } from "./figures.ts";

test("the best of a loss, an error and a time is the least, of all else the greatest", () => {
  assert.deepEqual(["loss", "val_loss", "top5_error", "epoch_s", "step_ms"].map(isBestLeast), Array(5).fill(true));
  assert.deepEqual(["val_accuracy", "samples_per_s", "auc"].map(isBestLeast), Array(3).fill(false));
});

test("gaps are no figures", () => {
  assert.deepEqual(figuresOf([null, 0.5, 0.9, 0.7, null], "accuracy"), { first: 0.5, best: 0.9, last: 0.7 });
  assert.deepEqual(figuresOf([0.9, 0.2, 0.4], "loss"), { first: 0.9, best: 0.2, last: 0.4 });
  assert.deepEqual(figuresOf([null], "loss"), { first: null, best: null, last: null });
});

test("a curve is told in words", () => {
  assert.equal(inWords("loss", { first: 2, best: 0.25, last: 0.5 }), "loss: first 2, best 0.25, last 0.5");
  assert.equal(inWords("loss", { first: null, best: null, last: null }), "loss: –");
});
