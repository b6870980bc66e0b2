import assert from "node:assert/strict";
import { test } from "node:test";
import {
  axisAtFirst,
  canBeLog,
  countedIn,
  curvesOf,
  metricsAmong,
  onAxis,
  ordered,
  pointsEach,
  shownAtFirst,
} from "./curves.ts";
import { job } from "./job.fixture.ts";

const VALUE = { last: 1, best: 1 };
const OWN = job("own");
const SCRIPT = job("script", { spec: { code: "c0de" }, metrics: { mae: VALUE, val_mae: VALUE, wer: VALUE } });

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
  const all = metricsAmong([OWN], ["loss", "f1"], ["recall"]);
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

test("a script has only the metrics that it reports, and begins with those that count", () => {
  assert.deepEqual(metricsAmong([SCRIPT], ["epoch_s"], ["lost"]), ["epoch_s", "val_mae", "mae", "wer", "lost"]);
  assert.deepEqual(shownAtFirst([SCRIPT]), ["mae", "val_mae"]);
  assert.deepEqual(shownAtFirst([OWN]), ["loss", "val_loss", "accuracy", "val_accuracy"]);
  assert.deepEqual(shownAtFirst([OWN, SCRIPT]).slice(-2), ["mae", "val_mae"]);
});

test("a goal of Hora's own loop is shown by default too", () => {
  const own = job("own", { spec: { goal: { metric: "val_auc" } }, metrics: { auc: VALUE, val_auc: VALUE } });
  assert.deepEqual(shownAtFirst([own]), ["loss", "val_loss", "accuracy", "val_accuracy", "auc", "val_auc"]);
});

test("the axis is that of steps if a script has ended no epoch", () => {
  const inEpochs = job("epochs", { spec: { code: "c0de" }, metrics: { mae: { ...VALUE, best_epoch: 1 }, wer: VALUE } });
  assert.equal(axisAtFirst([inEpochs, SCRIPT]), "step");
  assert.equal(axisAtFirst([inEpochs, OWN, job("silent", { spec: { code: "c0de" } })]), "epoch");
  assert.equal(axisAtFirst([OWN]), "epoch");
});

test("a curve over all ranks comes before that of a single rank", () => {
  const series = [-1, 0].map((rank) => ({ name: "mae", rank, x: [1], y: [rank], bands: [] }));
  const only = { name: "wer", rank: 0, x: [1], y: [7], bands: [] };
  const curves = curvesOf([{ id: "a", series: [...series, only] }]).get("a");
  assert.deepEqual(
    ["mae", "wer"].map((name) => curves?.get(name)?.ys[0]),
    [-1, 7],
  );
});

test("on the axis of a metric, points stand at its value at the same step, in its order", () => {
  const curve = (xs: number[], ys: number[]) => ({ xs: Float64Array.from(xs), ys: Float64Array.from(ys), bands: [] });
  const curves = new Map([
    ["tokens", curve([0, 10, 20], [0, 1000, 500])],
    ["loss", curve([5, 10, 20, 30], [0.9, 0.5, 0.4, 0.3])],
  ]);
  const loss = onAxis(curves, "tokens", null).get("loss");
  assert.deepEqual([...(loss?.xs ?? [])], [500, 500, 1000]);
  assert.deepEqual([...(loss?.ys ?? [])], [0.9, 0.4, 0.5]);
  assert.equal(onAxis(curves, "no such metric", null).size, 0);
  const byClock = onAxis(curves, "clock", "1970-01-01T01:00:00Z").get("loss");
  assert.deepEqual([...(byClock?.xs ?? [])], [3605, 3610, 3620, 3630]);
  assert.equal(onAxis(curves, "step", null), curves);
});
