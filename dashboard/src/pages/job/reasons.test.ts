import assert from "node:assert/strict";
import { test } from "node:test";
import { ordinal, preemptionOf } from "./reasons.ts";

test("a queue position is written as an ordinal number", () => {
  assert.deepEqual([1, 2, 3, 4, 11, 12, 13, 21, 102, 111, 1003].map(ordinal), [
    "1st",
    "2nd",
    "3rd",
    "4th",
    "11th",
    "12th",
    "13th",
    "21st",
    "102nd",
    "111th",
    "1,003rd",
  ]);
});

test("a preemption names its cause, a job or a host", () => {
  assert.equal(preemptionOf({ kind: "job", job: "0abc", host: null }), "preempted to make room for job 0abc");
  assert.equal(preemptionOf({ kind: "host_drained", job: null, host: "ha" }), "moved because host ha is drained");
  assert.equal(
    preemptionOf({ kind: "host_shutting_down", job: null, host: "ha" }),
    "moved because host ha is shutting down",
  );
});
