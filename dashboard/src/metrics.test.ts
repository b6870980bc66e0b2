import assert from "node:assert/strict";
import { test } from "node:test";
import type { Job } from "./api/types.ts";
import cases from "./metrics.cases.json" with { type: "json" };
import {
  type Goal,
  goalMetric,
  goalMetricOf,
  goalOf,
  inOrder,
  isBetterLower,
  isMeasured,
  metricsOf,
} from "./metrics.ts";

test("names say whether lower values are better, as for the service", () => {
  for (const name of cases.better_lower) assert.equal(isBetterLower(name), true, name);
  for (const name of cases.better_higher) assert.equal(isBetterLower(name), false, name);
});

test("the mode of a goal decides for its own metric only", () => {
  for (const { goal, is_better_lower } of cases.modes as { goal: Goal; is_better_lower: boolean }[])
    assert.equal(isBetterLower(goal.metric, goal), is_better_lower, JSON.stringify(goal));
  assert.equal(isBetterLower("loss", { metric: "val_iou", mode: "max" }), true);
});

test("the metric that counts is the one that the service chooses", () => {
  for (const { goal, names, chosen } of cases.goals as { goal: Goal | null; names: string[]; chosen: string | null }[])
    assert.equal(goalMetric(goal, names), chosen, names.join());
});

test("a figure that Hora measures does not count without a goal that names it", () => {
  assert.ok(cases.measured.every(isMeasured));
  assert.equal(goalMetric(null, [...cases.measured, ...cases.sampled]), null);
  assert.equal(goalMetric({ metric: "samples_per_s" }, []), "samples_per_s");
});

test("the goal of a spec is null if it names none", () => {
  assert.deepEqual(goalOf({ goal: { metric: "val_iou", mode: null } }), { metric: "val_iou", mode: null });
  assert.equal(goalOf({ goal: null }), null);
  assert.equal(goalOf({}), null);
});

function jobWith(changes: object): Job {
  return { spec: {}, metrics: {}, summary: null, progress: {}, ended_at: null, ...changes } as Job;
}

test("what counts for Hora's own loop is the validation accuracy before anything is reported", () => {
  assert.equal(goalMetricOf({}, []), "val_accuracy");
  assert.equal(goalMetricOf({ code: "c0de" }, []), null);
  assert.equal(goalMetricOf({ code: "c0de" }, ["wer"]), "wer");
});

test("the metrics of a live job have the values of its newest epoch, those of an ended job do not change", () => {
  const metrics = { mae: { last: 2, best: 1, best_epoch: 4 } };
  const progress = { epoch: 5, metrics: { mae: 0.5, iou: 0.1 } };
  assert.deepEqual(metricsOf(jobWith({ metrics, progress })), {
    mae: { last: 0.5, best: 0.5, best_epoch: 5 },
    iou: { last: 0.1, best: 0.1, best_epoch: 5 },
  });
  assert.deepEqual(metricsOf(jobWith({ metrics, progress, ended_at: "2030-01-01T00:00:00Z" })), metrics);
});

test("the newest values belong to the ended epoch that the progress names, not to the one in progress", () => {
  const progress = { epoch: 5, metrics_epoch: 4, metrics: { mae: 0.5 } };
  assert.equal(metricsOf(jobWith({ progress }))["mae"]?.best_epoch, 4);
  assert.equal(metricsOf(jobWith({ progress: { ...progress, metrics_epoch: null } }))["mae"]?.best_epoch, 5);
});

test("the metrics of an earlier version's job are those of its summary", () => {
  const summary = { val_accuracy: 0.9, best_epoch: 3 };
  assert.deepEqual(metricsOf(jobWith({ summary })), { val_accuracy: { last: 0.9, best: 0.9, best_epoch: 3 } });
});

test("metrics stand in the order of what counts, validations, others, times", () => {
  assert.deepEqual(inOrder(["epoch_s", "mae", "val_b", "val_a", "goal"], "goal"), [
    "goal",
    "val_a",
    "val_b",
    "mae",
    "epoch_s",
  ]);
});
