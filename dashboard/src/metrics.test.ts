import assert from "node:assert/strict";
import { test } from "node:test";
import cases from "./metrics.cases.json" with { type: "json" };
import { type Goal, goalMetric, goalOf, isBetterLower, isMeasured } from "./metrics.ts";

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
