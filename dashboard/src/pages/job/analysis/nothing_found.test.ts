import assert from "node:assert/strict";
import { test } from "node:test";
import { nothingFound } from "./nothing_found.ts";

function steps(count: number, seconds: number) {
  return [{ rank: -1, steps: count, step_time_s: seconds / count, data_wait: 0, allreduce: 0, compute: 1 }];
}

test("a job with enough steps has no findings because nothing stands out", () => {
  assert.match(nothingFound({ complete: true, steps: steps(200, 6) }, true), /^No findings: nothing/);
});

test("a job with few or short steps, or without their times, has no findings for want of them", () => {
  assert.match(nothingFound({ complete: true, steps: steps(29, 60) }, false), /at least 30 steps that take 3 seconds/);
  assert.match(
    nothingFound({ complete: false, steps: steps(200, 2) }, true),
    /^No findings yet. Most findings need at least/,
  );
  assert.match(nothingFound({ complete: true, steps: [] }, false), /at least 30 steps/);
  assert.match(nothingFound({ complete: true, steps: [] }, true), /with run\.phase/);
});
