import assert from "node:assert/strict";
import { test } from "node:test";
import { jobsBefore } from "./after.ts";

test("the jobs before a job are those in after, and the one from whose weights it starts", () => {
  assert.deepEqual(jobsBefore({ after: ["a", "b"], model: { weights: "job:c" } }), ["a", "b", "c"]);
  assert.deepEqual(jobsBefore({ after: ["a", "a"], model: { weights: "job:a" } }), ["a"]);
  assert.deepEqual(jobsBefore({ after: ["a"], model: null }), ["a"]);
  assert.deepEqual(jobsBefore({ model: { weights: "sets/a.weights.h5" } }), []);
});
