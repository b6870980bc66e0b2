import assert from "node:assert/strict";
import { test } from "node:test";
import type { Job } from "../../../api/types.ts";
import { learnedFigures } from "./learned.ts";

const SUMMARY = { best_epoch: 3, epochs_run: 6, val_accuracy: 0.9, val_loss: 0.25, metrics: {} };
const METRICS = {
  val_auc: { last: 0.5, best: 0.75, best_epoch: 2 },
  val_loss: { last: 0.5, best: 0.25, best_epoch: 4 },
};

function figuresOf(spec: object): unknown[] {
  const job = { spec, metrics: METRICS, summary: SUMMARY, progress: {}, ended_at: "2030-01-01T00:00:00Z" } as unknown;
  return learnedFigures(job as Job)
    .filter(({ value }) => value !== "–")
    .map(({ name, value, more }) => [name, value, more]);
}

test("the accuracy has the best epoch only if the weights of that epoch were kept", () => {
  const accuracyOf = (early_stopping: object | null): unknown => figuresOf({ early_stopping })[0];
  assert.deepEqual(accuracyOf({ restore_best_weights: true }), ["Val accuracy", "0.9", "epoch 3"]);
  assert.deepEqual(accuracyOf({ restore_best_weights: false }), ["Val accuracy", "0.9", undefined]);
  assert.deepEqual(accuracyOf(null), ["Val accuracy", "0.9", undefined]);
});

test("a goal of Hora's own loop comes first, and once", () => {
  assert.deepEqual(figuresOf({ goal: { metric: "val_auc" } }), [
    ["val_auc", "0.75", "best, epoch 2"],
    ["Val accuracy", "0.9", undefined],
    ["Val loss", "0.25", undefined],
  ]);
  assert.deepEqual(figuresOf({ goal: { metric: "val_loss" } }), [
    ["val_loss", "0.25", "best, epoch 4"],
    ["Val accuracy", "0.9", undefined],
  ]);
});

test("a script has only what it reports", () => {
  assert.deepEqual(figuresOf({ code: "c0de", goal: { metric: "val_auc" } }), [["val_auc", "0.75", "best, epoch 2"]]);
});
