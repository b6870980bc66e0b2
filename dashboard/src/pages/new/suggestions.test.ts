import assert from "node:assert/strict";
import { test } from "node:test";
import type { Project } from "../../api/types.ts";
import { dataSources, ofDataset, ofProject, recent } from "./suggestions.ts";

const DIGITS = {
  name: "digits",
  description: "Handwritten digits",
  trainable: 1500,
  test: 297,
  classes: 10,
  targets: 0,
  shape: [8, 8, 1],
  format: "arrays",
  builtin: true,
  status: "ready" as const,
  error: null,
};

test("a suggested dataset shows its state, size, shape and description", () => {
  assert.equal(ofDataset(DIGITS).detail, "1,500 samples of 8×8×1 in 10 classes. Handwritten digits");
  assert.match(ofDataset({ ...DIGITS, classes: 0, targets: 1 }).detail, /8×8×1 with 1 target\./);
  assert.equal(
    ofDataset({ ...DIGITS, description: "", trainable: null, shape: null, classes: null, status: "validating" }).detail,
    "is being validated",
  );
});

test("an invalid dataset is not suggested, not even because a recent job names it", () => {
  const bad = { ...DIGITS, name: "bad", status: "invalid" as const, error: "it has no images" };
  const jobs = [{ name: "tried", spec: { dataset: { source: "bad" } } }];
  assert.deepEqual(
    dataSources([DIGITS, bad], jobs).map(({ value }) => value),
    ["digits"],
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

test("a suggested project says what its jobs use and what applies to them", () => {
  const limits = { max_slots: 8, max_queued: null, max_gpu_hours: null, max_storage_gb: null, share: 1 };
  const usage = { slots: 3, queued: 2, gpu_hours: 1, renews_at: "2030-02-01T00:00:00Z", storage_gb: 0 };
  const people = { is_open: true, members: [], created_at: "2030-01-01T00:00:00Z", archived_at: null, revision: 1 };
  const vision: Project = { name: "vision", description: "Images", ...limits, usage, ...people };
  assert.equal(ofProject(vision).detail, "Images, 3 of 8 slots in use, 2 queued");
  assert.equal(
    ofProject({ ...vision, max_priority: 0, share: 2.5, idle: { below: 5, for_s: 1800, action: "pause" } }).detail,
    "Images, 3 of 8 slots in use, 2 queued, priority up to 0, share 2.5, idle: pause",
  );
});
