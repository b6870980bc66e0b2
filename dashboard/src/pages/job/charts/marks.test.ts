import assert from "node:assert/strict";
import { test } from "node:test";
import type { Attempt } from "../../../api/types.ts";
import type { Metrics } from "./curves.ts";
import { marksOf } from "./marks.ts";

type JobFields = Parameters<typeof marksOf>[0];

const JOB = {
  summary: { best_epoch: 2, epochs_run: 3 },
  plan: { steps_per_epoch: 10 },
  spec: {},
  started_at: "2030-01-01T00:00:00Z",
  created_at: "2029-12-31T00:00:00Z",
} as unknown as JobFields;

const TWO_ATTEMPTS = [
  { number: 1, resumed_step: 0, started_at: "2030-01-01T00:00:00Z" },
  { number: 2, resumed_step: 20, started_at: "2030-01-01T00:01:30Z" },
] as unknown as Attempt[];

function epochEnds(xs: number[]): Metrics {
  return new Map([["loss", new Map([[-1, { xs, ys: xs, bands: [] }]])]]);
}

test("the best epoch is marked where it ended, on every axis", () => {
  assert.deepEqual(marksOf(JOB, [], epochEnds([1, 2, 3]), "epoch"), [{ x: 2, text: "best epoch" }]);
  assert.deepEqual(marksOf(JOB, [], epochEnds([12, 24, 36]), "step"), [{ x: 24, text: "best epoch" }]);
  assert.deepEqual(marksOf(JOB, [], epochEnds([5.5, 9.25, 13]), "time"), [{ x: 9.25, text: "best epoch" }]);
});

test("with epochs missing, the plan gives the best epoch's step, and the time axis has no mark", () => {
  assert.deepEqual(marksOf(JOB, [], epochEnds([12, 36]), "step"), [{ x: 20, text: "best epoch" }]);
  assert.deepEqual(marksOf(JOB, [], epochEnds([5.5, 13]), "time"), []);
});

test("a restart is marked where it resumed, or at its start on the time axis", () => {
  const job = { ...JOB, summary: null } as JobFields;
  const at = (axis: "step" | "epoch" | "time") =>
    marksOf(job, TWO_ATTEMPTS, epochEnds([]), axis).map(({ x, text }) => [x, text]);
  assert.deepEqual(at("step"), [[20, "attempt 2"]]);
  assert.deepEqual(at("epoch"), [[2, "attempt 2"]]);
  assert.deepEqual(at("time"), [[90, "attempt 2"]]);
});

test("an attempt without a start or a resumed step has no mark", () => {
  const job = { ...JOB, summary: null } as JobFields;
  const waiting = [{ number: 2, resumed_step: null, started_at: null }] as unknown as Attempt[];
  for (const axis of ["step", "epoch", "time"] as const)
    assert.deepEqual(marksOf(job, waiting, epochEnds([]), axis), []);
});

test("a script is marked at the best value of its goal, wherever that is", () => {
  const points = { xs: [7, 20, 31], ys: [0.5, 0.2, 0.4], bands: [] };
  const metrics: Metrics = new Map([["val_mae", new Map([[-1, points]])]]);
  const script = (mode: "min" | "max") =>
    ({
      ...JOB,
      spec: { code: "c0de", goal: { metric: "val_mae", mode } },
      summary: { metrics: { val_mae: { last: 0.4, best: 0.2 } } },
    }) as unknown as JobFields;
  assert.deepEqual(marksOf(script("min"), [], metrics, "step"), [{ x: 20, text: "best" }]);
  assert.deepEqual(marksOf(script("max"), [], metrics, "time"), [{ x: 7, text: "best" }]);
});
