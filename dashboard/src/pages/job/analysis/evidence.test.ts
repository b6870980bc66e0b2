import assert from "node:assert/strict";
import { test } from "node:test";
import { figureOf, flatChange, nameOf } from "./evidence.ts";

test("a figure is shown in the unit that its name ends in", () => {
  assert.equal(figureOf("step_time_s", 0.0031), "3.1 ms");
  assert.equal(figureOf("length_s", 75), "1 min 15 s");
  assert.equal(figureOf("samples_per_s", 1234), "1,234");
  assert.equal(figureOf("memory_bytes", 1024), "1 KiB");
  assert.equal(figureOf("gpu_percent", 41.26), "41.3 %");
  assert.equal(figureOf("after_best_share", 0.4281), "42.8 %");
  assert.equal(figureOf("share", 0.5), "50.0 %");
  assert.equal(figureOf("knee_batch", null), "–");
  assert.equal(figureOf("cause", "data"), "data");
  assert.equal(figureOf("overfits", true), "yes");
});

test("a name is shown in words, without its unit unless it is a rate", () => {
  assert.equal(nameOf("step_time_s"), "step time");
  assert.equal(nameOf("samples_per_s"), "samples per s");
  assert.equal(nameOf("epochs_run"), "epochs run");
});

test("a change is listed field by field, with nested names joined by dots", () => {
  assert.deepEqual(flatChange({ probe: null, early_stopping: { monitor: "val_loss", patience: 3 }, augment: ["a"] }), [
    ["probe", "null"],
    ["early_stopping.monitor", '"val_loss"'],
    ["early_stopping.patience", "3"],
    ["augment", '["a"]'],
  ]);
});
