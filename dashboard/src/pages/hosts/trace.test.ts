import assert from "node:assert/strict";
import { test } from "node:test";
import { greatest, newest, tracePath } from "./trace.ts";

test("a trace is drawn on fixed scales and breaks at gaps", () => {
  assert.equal(tracePath([0, 5, 10], [0, null, 100], 10, 100, 50, 20), "M0.0 20.0M50.0 0.0");
  assert.equal(tracePath([5, 10], [50, 200], 10, 100, 50, 20), "M25.0 10.0L50.0 0.0");
  assert.equal(tracePath([10], [0], 10, 0, 50, 20), "M50.0 20.0");
});

test("the newest value is null if it is too old or missing", () => {
  assert.equal(newest([590, 598], [1, 2], 600, 15), 2);
  assert.equal(newest([300], [1], 600, 15), null);
  assert.equal(newest([], [], 600, 15), null);
});

test("the greatest value of several series ignores gaps, and is 0 without values", () => {
  assert.equal(greatest([null, 3], [7]), 7);
  assert.equal(greatest([], [null]), 0);
});
