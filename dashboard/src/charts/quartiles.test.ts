import assert from "node:assert/strict";
import { test } from "node:test";
import { boxOf } from "./quartiles.ts";

test("quartiles lie between values, and whiskers end at the last values that are no outliers", () => {
  // numpy.quantile([1, 2, 3, 4, 5, 6, 20], [.25, .5, .75]) is [2.5, 4, 5.5]; 1.5 times 3 above 5.5 is 10
  assert.deepEqual(boxOf([20, 3, 1, 2, 6, 5, 4]), { lower: 2.5, median: 4, upper: 5.5, low: 1, high: 6 });
  assert.deepEqual(boxOf([1, 2]), { lower: 1.25, median: 1.5, upper: 1.75, low: 1, high: 2 });
});

test("one value is a box without a height", () => {
  assert.deepEqual(boxOf([7]), { lower: 7, median: 7, upper: 7, low: 7, high: 7 });
});
