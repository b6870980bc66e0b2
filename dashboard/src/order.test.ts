import assert from "node:assert/strict";
import { test } from "node:test";
import { byValue } from "./order.ts";

test("missing values sort last in both directions", () => {
  const sorted = (isFalling: boolean) => [null, 2, 10, 1].toSorted((a, b) => byValue(a, b, isFalling));
  assert.deepEqual(sorted(false), [1, 2, 10, null]);
  assert.deepEqual(sorted(true), [10, 2, 1, null]);
});

test("numbers inside texts are compared as numbers", () => {
  assert.deepEqual(
    ["b10", "b9", "a"].toSorted((a, b) => byValue(a, b, false)),
    ["a", "b9", "b10"],
  );
});
