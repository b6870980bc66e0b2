import assert from "node:assert/strict";
import { test } from "node:test";
import { bands, rounded, Scale } from "./scales.ts";

test("a scale maps a value to a position and back, also when positions fall", () => {
  const scale = new Scale([10, 20], [200, 100]);
  assert.equal(scale.at(10), 200);
  assert.equal(scale.at(15), 150);
  assert.equal(scale.valueAt(125), 17.5);
});

test("a log scale puts equal ratios at equal distances", () => {
  const scale = new Scale([1, 10_000], [0, 400], true);
  assert.equal(scale.at(100), 200);
  assert.ok(Math.abs(scale.valueAt(300) - 1000) < 1e-9);
});

test("ticks are round values within the range, and a range can get round ends", () => {
  assert.deepEqual(new Scale([0.1, 2.1], [0, 1]).ticks(5), [0.5, 1, 1.5, 2]);
  assert.deepEqual(rounded([0.13, 2.1], 5), [0, 2.5]);
});

test("bands fill the width with equal gaps", () => {
  const { left, width } = bands(4, [0, 400], 0.5);
  assert.equal(width, 50);
  assert.deepEqual([0, 1, 2, 3].map(left), [25, 125, 225, 325]);
});
