import assert from "node:assert/strict";
import { test } from "node:test";
import type { Curve } from "./curves.ts";
import { groupCurve } from "./group_curve.ts";

const curve = (xs: readonly number[], ys: readonly number[]): Curve => ({
  xs: Float64Array.from(xs),
  ys: Float64Array.from(ys),
  bands: [],
});

test("the mean, the spread and the count are of the runs that have a value there", () => {
  const group = groupCurve([curve([1, 2, 3], [1, 2, 3]), curve([1, 2], [3, 6])]);
  assert.deepEqual([...group.xs], [1, 2, 3]);
  assert.deepEqual([...group.mean], [2, 4, 3]);
  assert.deepEqual([...group.counts], [2, 2, 1]);
  assert.deepEqual([...group.least], [1, 2, 3]);
  assert.deepEqual([...group.greatest], [3, 6, 3]);
  assert.deepEqual([...group.deviation], [Math.SQRT2, Math.sqrt(8), Number.NaN]);
});

test("a run has values between its points, and none within a gap", () => {
  const group = groupCurve([curve([1, 2, 3], [0, 0, 0]), curve([1, 3], [2, 4]), curve([1, 2, 3], [1, Number.NaN, 1])]);
  assert.deepEqual([...group.counts], [3, 2, 3]);
  assert.equal(group.mean[1], 1.5);
});

test("runs with points at different seconds are averaged within parts of the axis", () => {
  const of = (shift: number): Curve =>
    curve(
      Array.from({ length: 1000 }, (_, i) => i + shift),
      Array.from({ length: 1000 }, () => shift),
    );
  const group = groupCurve([of(0.1), of(0.5)]);
  assert.ok(group.xs.length <= 300);
  assert.ok(group.mean.every((value) => Math.abs(value - 0.3) < 1e-12));
  assert.ok(group.counts.every((count) => count === 2));
});

test("a group without points has an empty curve", () => {
  assert.equal(groupCurve([curve([], [])]).xs.length, 0);
  assert.equal(groupCurve([]).xs.length, 0);
});
