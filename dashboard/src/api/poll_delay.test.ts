import assert from "node:assert/strict";
import { test } from "node:test";
import { pollDelayMs } from "./poll_delay.ts";
import { Problem } from "./problem.ts";

const POLL_STATE = { everyMs: 2000, tookMs: 10, failures: 0, problem: undefined };

test("a poll waits for its period, and longer after a slow answer", () => {
  assert.equal(pollDelayMs(POLL_STATE), 2000);
  assert.equal(pollDelayMs({ ...POLL_STATE, tookMs: 1500 }), 6000);
});

test("a one-time request is not repeated after an answer", () => {
  assert.equal(pollDelayMs({ ...POLL_STATE, everyMs: Number.POSITIVE_INFINITY }), null);
});

test("a one-time request for what is not there is not repeated", () => {
  const problem = new Problem(404, "job-not-found", "Job not found");
  assert.equal(pollDelayMs({ ...POLL_STATE, everyMs: Number.POSITIVE_INFINITY, failures: 1, problem }), null);
  assert.equal(pollDelayMs({ ...POLL_STATE, failures: 1, problem }), 10_000);
});

test("while the api is away, retries start soon, slow down, and never stop", () => {
  const problem = new Problem(0, "away", "The api does not answer");
  const rests = [1, 2, 3, 20].map((failures) => pollDelayMs({ ...POLL_STATE, failures, problem }));
  assert.deepEqual(rests, [1000, 2000, 4000, 10_000]);
  assert.equal(pollDelayMs({ ...POLL_STATE, everyMs: Number.POSITIVE_INFINITY, failures: 1, problem }), 1000);
});

test("after a 401 nothing is requested until a person signs in", () => {
  assert.equal(
    pollDelayMs({ ...POLL_STATE, failures: 1, problem: new Problem(401, "unauthorized", "Not authenticated") }),
    null,
  );
});
