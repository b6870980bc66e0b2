import assert from "node:assert/strict";
import { test } from "node:test";
import { gridLine, isPaused, partsOf, progressLine, statusOf } from "./state.ts";
import { line } from "./study.fixture.ts";

test("the status of a complete study comes from how its jobs ended", () => {
  assert.equal(statusOf(line({ succeeded: 12 })), "succeeded");
  assert.equal(statusOf(line({ succeeded: 11, failed: 1 })), "failed");
  assert.equal(statusOf(line({ succeeded: 11, cancelled: 1 })), "cancelled");
  assert.equal(statusOf(line({ failed: 1, cancelled: 1 })), "failed");
  assert.equal(
    statusOf(line({ failed: 1, cancelled: 1 }, { cancel_requested_at: "2030-01-01T00:00:00Z" })),
    "cancelled",
  );
});

test("an incomplete study has the status of its furthest live job, or runs with only ended and queued ones", () => {
  assert.equal(statusOf(line({ queued: 12 })), "queued");
  assert.equal(statusOf(line({ queued: 11, launching: 1 })), "launching");
  assert.equal(statusOf(line({ queued: 10, launching: 1, running: 1 })), "running");
  assert.equal(statusOf(line({ queued: 6, succeeded: 6 })), "running");
});

test("a study is paused when all its live jobs are paused", () => {
  assert.equal(isPaused(line({ queued: 2, succeeded: 1 }, { paused: 2 })), true);
  assert.equal(isPaused(line({ queued: 1, running: 1 }, { paused: 1 })), false);
  assert.equal(isPaused(line({ succeeded: 3 })), false);
});

test("progress shows how many jobs ended, and counts failed and live ones by status", () => {
  assert.equal(
    progressLine(line({ succeeded: 4, failed: 1, running: 2, queued: 5 })),
    "5 of 12 jobs ended, 1 failed, 2 running, 5 queued",
  );
});

test("the grid is described in words", () => {
  assert.equal(gridLine(line({ succeeded: 12 })), "GPUs × batch size, 4 cells × 3 repeats");
  assert.equal(gridLine(line({ succeeded: 1 }, { varied: [], repeats: 1 })), "nothing varies, 1 cell × 1 repeat");
});

test("the parts of the bar are the shares of jobs by status", () => {
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
