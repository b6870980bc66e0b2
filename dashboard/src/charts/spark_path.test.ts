import assert from "node:assert/strict";
import { test } from "node:test";
import { sparkOf } from "./spark_path.ts";

test("a sparkline fills its box, the least value at the bottom and the greatest at the top", () => {
  const spark = sparkOf([1, 2, 3], [0, 1, 0.5], 100, 20, 2);
  assert.deepEqual(spark, { path: "M2 18L50 2L98 10", end: [98, 10] });
});

test("a sparkline places points by their x value, not at equal distances", () => {
  assert.equal(sparkOf([0, 1, 10], [0, 0, 1], 104, 20, 2)?.path, "M2 18L12 18L102 2");
});

test("a sparkline keeps gaps and ends at the newest known point", () => {
  assert.deepEqual(sparkOf([0, 1, 2, 3, 4], [0, null, 2, 1, null], 64, 20, 2), {
    path: "M2 18M42 2L62 10",
    end: [62, 10],
  });
});

test("equal values are drawn in the middle, and a single point at the right", () => {
  assert.equal(sparkOf([0, 1], [5, 5], 24, 20, 2)?.path, "M2 10L22 10");
  assert.deepEqual(sparkOf([7], [5], 24, 20, 2)?.end, [22, 10]);
});

test("without points there is no sparkline", () => {
  assert.equal(sparkOf([], [], 24, 20, 2), null);
  assert.equal(sparkOf([1, 2], [null, null], 24, 20, 2), null);
});
