import assert from "node:assert/strict";
import { test } from "node:test";
import { correlations, spearman } from "./correlations.ts";
import { RESULTS, settingsAmong } from "./fields.ts";
import { job } from "./job.fixture.ts";

test("a rank correlation is that of scipy.stats.spearmanr, with ties and for any rising curve", () => {
  assert.equal(spearman([1, 2, 3, 4], [1, 10, 100, 1000]), 1);
  assert.equal(spearman([1, 2, 3, 4], [4, 3, 2, 1]), -1);
  assert.ok(Math.abs(spearman([1, 1, 2, 3, 5], [2, 1, 2, 5, 3]) - 0.8157894736842107) < 1e-12);
  assert.ok(Number.isNaN(spearman([1, 1, 1, 1], [1, 2, 3, 4])));
});

test("the strongest setting comes first, a text is whether a run has it, and runs without a value do not count", () => {
  const jobs = [
    ["sgd", 0.1, 7, 0.9],
    ["sgd", 0.2, 5, 0.8],
    ["adam", 0.3, 6, 0.7],
    ["adam", 0.4, 8, 0.6],
    ["adam", 0.5, 9, null],
  ].map(([optimizer, learning_rate, seed, val_accuracy], i) =>
    job(`job${i}`, { spec: { optimizer, learning_rate, seed }, summary: { val_accuracy } }),
  );
  const [accuracy] = RESULTS;
  assert.ok(accuracy);
  const found = correlations(settingsAmong(jobs).differing, accuracy, jobs);
  assert.deepEqual(
    found.map(({ label, value, count }) => [label, Number(value.toFixed(3)), count]),
    [
      ["learning rate", -1, 4],
      ["optimizer: sgd", 0.894, 4],
      ["seed", -0.4, 4],
    ],
  );
  assert.deepEqual(correlations(settingsAmong(jobs).differing, accuracy, jobs.slice(2)), []);
});
