import assert from "node:assert/strict";
import { test } from "node:test";
import { bytesPerSecond, percents, shortTime, slowedLevel } from "./quantities.ts";

test("a step time is shown in s, ms or µs, depending on its size", () => {
  assert.deepEqual([0, 1.5e-5, 0.0042, 0.42, 12].map(shortTime), ["0 s", "15 µs", "4.2 ms", "420 ms", "12 s"]);
  assert.equal(shortTime(0.000_999_9), "1 ms");
  assert.equal(shortTime(Number.NaN), "–");
});

test("an unknown value is a dash without a unit", () => {
  assert.equal(percents(Number.NaN), "–");
  assert.equal(bytesPerSecond(Number.NaN), "–");
  assert.equal(percents(97.53), "97.5 %");
});

test("an idle GPU or a set clock does not count as slowed down; unknown stays unknown", () => {
  assert.equal(slowedLevel(0x1 | 0x2), 0);
  assert.ok(Number.isNaN(slowedLevel(Number.NaN)));
});
