import assert from "node:assert/strict";
import { test } from "node:test";
import { greatest, newest, tracePath } from "./trace.ts";

test("a trace stands on its own scale, and breaks where nothing was read", () => {
  assert.equal(tracePath([0, 5, 10], [0, null, 100], 10, 100, 50, 20), "M0.0 20.0M50.0 0.0");
  assert.equal(tracePath([5, 10], [50, 200], 10, 100, 50, 20), "M25.0 10.0L50.0 0.0");
  assert.equal(tracePath([10], [0], 10, 0, 50, 20), "M50.0 20.0");
});

test("an old value is not the value of now", () => {
  assert.equal(newest([590, 598], [1, 2], 600, 15), 2);
  assert.equal(newest([300], [1], 600, 15), null);
  assert.equal(newest([], [], 600, 15), null);
});

test("the greatest of some series, gaps or not", () => {
  assert.equal(greatest([null, 3], [7]), 7);
  assert.equal(greatest([], [null]), 0);
});
