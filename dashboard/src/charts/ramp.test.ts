import assert from "node:assert/strict";
import { test } from "node:test";
import { extentOf, rampColour, shareOf, tint } from "./ramp.ts";

test("the ramp goes from its first colour to its last", () => {
  assert.match(rampColour(0), /--ramp-1\) 0%, var\(--ramp-0\)/);
  assert.match(rampColour(1), /--ramp-4\) 100%, var\(--ramp-3\)/);
  assert.match(rampColour(0.375), /--ramp-2\) 50%, var\(--ramp-1\)/);
  assert.equal(rampColour(-1), rampColour(0));
  assert.equal(rampColour(2), rampColour(1));
});

test("a tint is limited so that text on it stays readable", () => {
  assert.match(tint(1), /42%/);
  assert.match(tint(5), /42%/);
  assert.match(tint(0), /0%/);
});

test("a share is a value's position between two ends, and 0.5 if the ends are equal", () => {
  assert.equal(shareOf(3, [2, 4]), 0.5);
  assert.equal(shareOf(2, [2, 2]), 0.5);
  assert.deepEqual(extentOf([3, 1, 2]), [1, 3]);
  assert.equal(extentOf([]), null);
});
