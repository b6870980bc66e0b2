import assert from "node:assert/strict";
import { test } from "node:test";
import { ofDataset, recent } from "./suggestions.ts";

const DIGITS = {
  name: "digits",
  description: "Handwritten digits",
  trainable: 1500,
  test: 297,
  classes: 10,
  shape: [8, 8, 1],
  format: "arrays",
  builtin: true,
  status: "ready" as const,
  error: null,
};

test("a suggested dataset shows its state, size, shape and description", () => {
  assert.equal(ofDataset(DIGITS).detail, "1,500 samples of 8×8×1 in 10 classes. Handwritten digits");
  assert.equal(
    ofDataset({ ...DIGITS, description: "", trainable: null, shape: null, classes: null, status: "validating" }).detail,
    "is being validated",
  );
});

test("each source of recent jobs is suggested once, unless it is a registered dataset", () => {
  const jobs = ["chips@2", "digits", "chips@2", "/data/x"].map((source, index) => ({
    name: `job ${index}`,
    spec: { dataset: { source } },
  }));
  assert.deepEqual(recent(jobs, new Set(["digits"])), [
    { value: "chips@2", detail: "As in job 0" },
    { value: "/data/x", detail: "As in job 3" },
  ]);
});
