import assert from "node:assert/strict";
import { test } from "node:test";
import { gridLine, isPaused, partsOf, progressLine, statusOf } from "./state.ts";
import { line } from "./study.fixture.ts";

test("a study that is over ended as its jobs did", () => {
  assert.equal(statusOf(line({ succeeded: 12 })), "succeeded");
  assert.equal(statusOf(line({ succeeded: 11, failed: 1 })), "failed");
  assert.equal(statusOf(line({ succeeded: 11, cancelled: 1 })), "cancelled");
  assert.equal(statusOf(line({ failed: 1, cancelled: 1 })), "failed");
  assert.equal(
    statusOf(line({ failed: 1, cancelled: 1 }, { cancel_requested_at: "2030-01-01T00:00:00Z" })),
    "cancelled",
  );
});

test("a study that goes on is as far as its furthest job", () => {
  assert.equal(statusOf(line({ queued: 12 })), "queued");
  assert.equal(statusOf(line({ queued: 11, launching: 1 })), "launching");
  assert.equal(statusOf(line({ queued: 10, launching: 1, running: 1 })), "running");
  assert.equal(statusOf(line({ queued: 6, succeeded: 6 })), "running");
});

test("a study is paused when all that lives of it is", () => {
  assert.equal(isPaused(line({ queued: 2, succeeded: 1 }, { paused: 2 })), true);
  assert.equal(isPaused(line({ queued: 1, running: 1 }, { paused: 1 })), false);
  assert.equal(isPaused(line({ succeeded: 3 })), false);
});

test("progress says how many ended, and what became of the others", () => {
  assert.equal(
    progressLine(line({ succeeded: 4, failed: 1, running: 2, queued: 5 })),
    "5 of 12 jobs ended, 1 failed, 2 running, 5 queued",
  );
});

test("the grid is told in words", () => {
  assert.equal(gridLine(line({ succeeded: 12 })), "GPUs × batch size, 4 cells × 3 repeats");
  assert.equal(gridLine(line({ succeeded: 1 }, { varied: [], repeats: 1 })), "nothing varies, 1 cell × 1 repeat");
});

test("the parts of the bar are all of the jobs", () => {
  const parts = partsOf(line({ succeeded: 1, failed: 1, queued: 2 }));
  assert.deepEqual(
    parts.map(({ status, share }) => [status, share]),
    [
      ["succeeded", 0.25],
      ["failed", 0.25],
      ["queued", 0.5],
    ],
  );
});
