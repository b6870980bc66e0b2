import assert from "node:assert/strict";
import { test } from "node:test";
import type { Trial } from "../../api/types.ts";
import { report } from "./study.fixture.ts";
import { importancesOf, sortedTrials, stateOf, trialColumns, trialLines } from "./trials.ts";

function trial(number: number, rate: number, parts: Partial<Trial> = {}): Trial {
  return {
    number,
    values: { learning_rate: rate, model: { name: "mlp" } },
    status: "succeeded",
    end_reason: "completed",
    objective: null,
    epochs: null,
    pruned_at_epoch: null,
    job_id: `j${number}`,
    ...parts,
  };
}

const SEARCH = report([], {
  varied: ["learning_rate", "model"],
  search: { method: "tpe", objective: "val_accuracy", mode: "max", trials: 3 },
  trials: [
    trial(0, 0.01, { objective: 0.9, epochs: 9 }),
    trial(1, 0.1, { objective: 0.2, epochs: 1, pruned_at_epoch: 1, end_reason: "pruned" }),
    trial(2, 0.001, { status: "running", end_reason: null }),
  ],
  importances: { model: 0.2, learning_rate: 0.8 },
  best: { goal: 0 },
});

test("trials are sorted by any column, those without a value last", () => {
  const numbers = (sort: string): number[] => sortedTrials(SEARCH, sort).map(({ number }) => number);
  assert.deepEqual(numbers(""), [0, 1, 2]);
  assert.deepEqual(numbers("objective"), [1, 0, 2]);
  assert.deepEqual(numbers("-objective"), [0, 1, 2]);
  assert.deepEqual(numbers("values.learning_rate"), [2, 0, 1]);
});

test("a row shows the values as they were written, and how the trial ended", () => {
  const first = SEARCH.trials?.[1] as Trial;
  const texts = trialColumns(SEARCH).map(({ format }) => format(first));
  assert.deepEqual(texts, ["1", "0.1", '{"name":"mlp"}', "0.2", "1", "pruned at epoch 1"]);
  assert.equal(stateOf(SEARCH.trials?.[2] as Trial), "running");
});

test("the chart has pruned trials apart, and none without a value", () => {
  const lines = trialLines(SEARCH).map(({ name, points }) => [name, points.map(({ x, value }) => [x, value])]);
  assert.deepEqual(lines, [
    ["to the end", [[0, 0.9]]],
    ["pruned", [[1, 0.2]]],
  ]);
});

test("the field that matters most comes first", () => {
  assert.deepEqual(importancesOf(SEARCH), [
    ["learning_rate", 0.8],
    ["model", 0.2],
  ]);
  assert.deepEqual(importancesOf({ ...SEARCH, importances: null }), []);
});
