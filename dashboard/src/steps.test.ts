import assert from "node:assert/strict";
import { test } from "node:test";
import { Steps } from "./steps.ts";

test("what is typed without a pause is one step, and every other change is its own", () => {
  const steps = new Steps();
  const begins = (isTyping: boolean, now: number) => steps.begins(isTyping, now);
  assert.deepEqual([begins(true, 0), begins(true, 400), begins(true, 1300)], [true, false, false]);
  assert.equal(begins(true, 2400), true, "after a pause");
  assert.deepEqual([begins(false, 2500), begins(false, 2501), begins(true, 2502)], [true, true, true]);
});

test("typing after a step back is a new step", () => {
  const steps = new Steps();
  steps.begins(true, 0);
  steps.end();
  assert.equal(steps.begins(true, 1), true);
});
