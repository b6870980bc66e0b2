import assert from "node:assert/strict";
import { test } from "node:test";
import { canBeLog, countedIn, curvesOf, metricsAmong, ordered, pointsEach } from "./curves.ts";

test("all curves together have at most as many points as one answer may have", () => {
  assert.equal(pointsEach(2, 4), 1000);
  assert.equal(pointsEach(200, 20), 250);
  assert.ok(200 * 20 * pointsEach(200, 20) <= 1_000_000);
  assert.equal(pointsEach(0, 0), 1000);
});

test("a null value is a gap", () => {
  const curve = curvesOf([{ id: "a", series: [{ name: "loss", rank: -1, x: [1, 2], y: [0.5, null], bands: [] }] }])
    .get("a")
    ?.get("loss");
  assert.deepEqual([...(curve?.xs ?? [])], [1, 2]);
  assert.deepEqual([...(curve?.ys ?? [])], [0.5, Number.NaN]);
});

test("custom metrics come after the usual ones, and each metric is listed once", () => {
  const all = metricsAmong(["loss", "f1"], ["recall"]);
  assert.deepEqual(all.slice(-2), ["f1", "recall"]);
  assert.equal(all.filter((name) => name === "loss").length, 1);
  assert.deepEqual(ordered(["f1", "val_loss", "loss"], all), ["loss", "val_loss", "f1"]);
});

test("accuracies have no logarithmic axis, and durations are counted in seconds", () => {
  assert.equal(canBeLog("val_accuracy"), false);
  assert.equal(canBeLog("val_loss"), true);
  assert.equal(countedIn("epoch_s"), "seconds");
  assert.equal(countedIn("samples_per_s"), "tens");
});
