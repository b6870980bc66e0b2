import assert from "node:assert/strict";
import { test } from "node:test";
import type { Job } from "../../api/types.ts";
import {
  bestOf,
  compared,
  type Field,
  flattened,
  goalValue,
  lastAmong,
  RESULTS,
  resultsAmong,
  resultsAtFirst,
  settingsAmong,
} from "./fields.ts";
import { job } from "./job.fixture.ts";

const accuracy = RESULTS.find(({ key }) => key === "val_accuracy") as Field;
const loss = RESULTS.find(({ key }) => key === "val_loss") as Field;

test("objects are flattened to dotted names, and lists become texts", () => {
  const flat = flattened({
    model: { name: "mlp", dropout: 0 },
    dataset: { augment: ["flip", "crop"], labels: [] },
    seed: null,
  });
  assert.deepEqual(
    [...flat],
    [
      ["model.name", "mlp"],
      ["model.dropout", 0],
      ["dataset.augment", "flip, crop"],
      ["dataset.labels", null],
      ["seed", null],
    ],
  );
});

test("differing settings are separated from shared ones, and the name is not a setting", () => {
  const { differing, shared } = settingsAmong([
    job("a", { spec: { seed: 1, epochs: 5, model: { name: "mlp" } } }),
    job("b", { spec: { seed: 1, epochs: 9, model: { name: "lenet5" } } }),
  ]);
  assert.deepEqual(
    differing.map(({ key }) => key),
    ["model.name", "epochs"],
  );
  assert.deepEqual(shared, [{ label: "seed", text: "1" }]);
});

test("a figure of the plan that equals a setting of the spec is left out", () => {
  const { differing } = settingsAmong([
    job("a", { spec: { batch_size: 32 }, plan: { global_batch: 32, steps_per_epoch: 40 } }),
    job("b", { spec: { batch_size: 64 }, plan: { global_batch: 64, steps_per_epoch: 20 } }),
  ]);
  assert.deepEqual(
    differing.map(({ key }) => key),
    ["batch_size", "plan.steps_per_epoch"],
  );
});

test("a setting that only some jobs have counts as differing", () => {
  const { differing } = settingsAmong([
    job("a", { spec: { labels: { team: "x" } } }),
    job("b", { spec: { labels: {} } }),
  ]);
  assert.deepEqual(
    differing.map(({ label }) => label),
    ["label team"],
  );
});

test("an optimizer has its name in one column, written as a plain name or as an object", () => {
  const { differing, shared } = settingsAmong([
    job("a", { spec: { optimizer: "sgd" } }),
    job("b", { spec: { optimizer: { name: "sgd", momentum: 0.9, nesterov: true } } }),
  ]);
  assert.deepEqual(
    differing.map(({ key }) => key),
    ["optimizer.momentum", "optimizer.nesterov"],
  );
  assert.deepEqual(shared, [{ label: "optimizer", text: "sgd" }]);
});

test("a running job has the figures of its progress as results", () => {
  const live = job("a", { progress: { metrics: { val_accuracy: 0.5 }, samples_per_s: 100 } });
  assert.equal(accuracy.valueIn(live), 0.5);
  assert.deepEqual(
    resultsAmong([live]).map(({ key }) => key),
    ["val_accuracy", "train_samples_per_s"],
  );
});

test("the best is the greatest accuracy or the least loss, and null without two different values", () => {
  const jobs = [
    job("a", { summary: { val_accuracy: 0.9, val_loss: 0.3 } }),
    job("b", { summary: { val_accuracy: 0.8, val_loss: 0.2 } }),
    job("c"),
  ];
  assert.equal(bestOf(accuracy, jobs), 0.9);
  assert.equal(bestOf(loss, jobs), 0.2);
  assert.equal(bestOf(accuracy, jobs.slice(0, 1)), null);
  assert.equal(bestOf(accuracy, [jobs[0], jobs[0]] as Job[]), null);
});

test("jobs without a value sort last in both directions", () => {
  const jobs = [
    job("none"),
    job("low", { summary: { val_accuracy: 0.1 } }),
    job("high", { summary: { val_accuracy: 0.9 } }),
  ];
  const ids = (isFalling: boolean): string[] => jobs.toSorted(compared(accuracy, isFalling)).map(({ id }) => id);
  assert.deepEqual(ids(false), ["low", "high", "none"]);
  assert.deepEqual(ids(true), ["high", "low", "none"]);
});

test("parameters of scripts are settings under their own names, and are safe in an address", () => {
  const script = (lr: number) => ({
    code: "c0de",
    command: ["python", "a b.py"],
    params: { "x:lr": lr, sizes: [1, 2] },
  });
  const { differing, shared } = settingsAmong([job("a", { spec: script(1) }), job("b", { spec: script(2) })]);
  assert.deepEqual(
    differing.map(({ key, label }) => [key, label]),
    [["params.x%3Alr", "params.x:lr"]],
  );
  assert.deepEqual(shared.find(({ label }) => label === "command")?.text, "python 'a b.py'");
});

test("every metric is a result, better as the goal or its name says, and the goal comes first", () => {
  const value = (best: number) => ({ last: 9, best });
  const spec = { code: "c0de", goal: { metric: "val_iou", mode: "min" } };
  const jobs = [0.5, 0.25].map((best) =>
    job(String(best), { spec, metrics: { mae: value(best), val_iou: value(best) }, summary: { wall_s: 3 } }),
  );
  const results = resultsAmong(jobs);
  assert.deepEqual(
    results.map(({ key, better, isGoal = false }) => [key, better, isGoal]),
    [
      ["metrics.val_iou", "less", true],
      ["wall_s", "less", false],
      ["metrics.mae", "less", false],
    ],
  );
  assert.equal(bestOf(results[0] as Field, jobs), 0.25);
  assert.equal(goalValue(jobs[0] as Job), 0.5);
  assert.equal(goalValue(job("own", { summary: { val_accuracy: 0.9 } })), 0.9);
});

test("by default the results are the speed and what counts, of any job", () => {
  const summary = { val_accuracy: 0.9, val_loss: 0.3, wall_s: 3 };
  const keys = (...jobs: Job[]): string[] => resultsAtFirst(resultsAmong(jobs)).map(({ key }) => key);
  const usual = job("usual", { summary });
  const own = job("own", {
    summary,
    spec: { goal: { metric: "val_auc" } },
    metrics: { val_auc: { last: 0.5, best: 0.5 } },
  });
  assert.deepEqual(keys(usual), ["val_accuracy", "val_loss", "wall_s"]);
  assert.deepEqual(keys(own), ["metrics.val_auc", "wall_s"]);
  assert.deepEqual(keys(usual, own), ["metrics.val_auc", "val_accuracy", "wall_s"]);
});

test("the last value of a metric is a field of its own beside the best one", () => {
  const jobs = [job("a", { metrics: { f1: { last: 0.6, best: 0.8 } } }), job("b")];
  const [last] = lastAmong(jobs);
  assert.deepEqual([last?.key, last?.label], ["last.f1", "last f1"]);
  assert.deepEqual(
    jobs.map((each) => last?.valueIn(each)),
    [0.6, null],
  );
});
