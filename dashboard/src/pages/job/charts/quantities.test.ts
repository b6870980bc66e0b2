import assert from "node:assert/strict";
import { test } from "node:test";
import { bytesPerSecond, percents, shortTime, slowedLevel } from "./quantities.ts";

test("times of steps are in the unit in which they are short", () => {
  assert.deepEqual([0, 1.5e-5, 0.0042, 0.42, 12].map(shortTime), ["0 s", "15 µs", "4.2 ms", "420 ms", "12 s"]);
  assert.equal(shortTime(0.000_999_9), "1 ms");
  assert.equal(shortTime(Number.NaN), "–");
});

test("what is not known has no unit", () => {
  assert.equal(percents(Number.NaN), "–");
  assert.equal(bytesPerSecond(Number.NaN), "–");
  assert.equal(percents(97.53), "97.5 %");
});

test("a GPU that is idle, or was told its clock, is not slowed down; what is unknown stays so", () => {
  assert.equal(slowedLevel(0x1 | 0x2), 0);
  assert.ok(Number.isNaN(slowedLevel(Number.NaN)));
});
