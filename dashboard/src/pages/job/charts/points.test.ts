import assert from "node:assert/strict";
import { test } from "node:test";
import { joined, type Points, pointsOf, spliced } from "./points.ts";

function points(xs: number[], ys: number[] = xs): Points {
  return { xs, ys, bands: [] };
}

test("a null value is a gap in the line", () => {
  assert.deepEqual(pointsOf({ x: [1, 2], y: [3, null], bands: [] }), points([1, 2], [3, Number.NaN]));
});

test("attempts are joined to one line with a gap between them", () => {
  assert.deepEqual(
    joined([points([0, 10]), points([20, 30])]),
    points([0, 10, 20, 20, 30], [0, 10, Number.NaN, 20, 30]),
  );
});

test("points that a later attempt repeats are left out", () => {
  const { xs } = joined([points([0, 10, 20, 30]), points([15, 25])]);
  assert.deepEqual(xs, [0, 10, 15, 15, 25]);
});

test("samples from before an attempt's first step do not make the line run backwards", () => {
  // Until its first step, an attempt's samples are at the progress of the job, which is beyond the checkpoint.
  const { xs, ys } = joined([points([0, 10], [1, 2]), points([18, 18, 12, 14], [7, 8, 3, 4])]);
  assert.deepEqual(
    xs,
    xs.toSorted((a, b) => a - b),
  );
  assert.deepEqual(
    ys.filter((y) => !Number.isNaN(y)),
    [1, 2, 3, 4],
  );
});

test("an attempt without points adds nothing to the line", () => {
  assert.deepEqual(
    joined([points([]), points([1, 2]), points([])]).xs.filter((x) => x !== 1),
    [2],
  );
  assert.deepEqual(joined([]), points([]));
});

test("points at the same position are all kept", () => {
  assert.deepEqual(joined([points([5, 5, 5], [1, 9, 1])]).ys, [1, 9, 1]);
});

test("detail replaces coarse points within its range only", () => {
  const wide = points([0, 10, 20, 30, 40]);
  assert.deepEqual(spliced(wide, points([15, 16, 24]), [15, 25]).xs, [0, 10, 15, 16, 24, 30, 40]);
  assert.deepEqual(spliced(wide, points([]), [10, 30]).xs, [0, 40]);
  assert.deepEqual(spliced(wide, points([-1, 50]), [-5, 55]).xs, [-1, 50]);
});

test("bands of the detail replace the coarse bands in its range", () => {
  const band = (x_from: number, x_to: number) => ({ x_from, x_to, count: 1, mean: 0 });
  const wide = { ...points([]), bands: [band(0, 9), band(10, 19), band(20, 29)] };
  const near = { ...points([]), bands: [band(12, 13), band(14, 15)] };
  assert.deepEqual(
    spliced(wide, near, [10, 19]).bands.map((one) => one.x_from),
    [0, 12, 14, 20],
  );
});
