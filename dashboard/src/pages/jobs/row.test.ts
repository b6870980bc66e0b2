import assert from "node:assert/strict";
import { test } from "node:test";
import { jobWith, rowWith } from "./row.fixture.ts";
import { rowOf, shareOf, withProgress, withState } from "./row.ts";

test("a row has the fields of a job that are shown, without its spec and plan", () => {
  const row = rowOf(jobWith({ labels: { team: "vision" } }), "next");
  assert.deepEqual(row.labels, ["team:vision"]);
  assert.deepEqual([row.dataset, row.model, row.global_batch, row.learning_rate], ["digits", "lenet5", 64, 0.002]);
  assert.equal(row.page, "next");
  assert.equal("spec" in row || "plan" in row, false);
});

test("a dataset that the spec gives as a string is shown too", () => {
  assert.equal(rowOf(jobWith({ spec: { dataset: "mnist" } })).dataset, "mnist");
});

test("a queued row shows its position, if it has one, and why it waits", () => {
  assert.equal(rowOf(jobWith({ waiting: { position: 2, reason: "no slot is free" } })).waiting, "#2 · no slot is free");
  assert.equal(rowOf(jobWith({ waiting: { position: null, reason: "paused" } })).waiting, "paused");
});

test("the throughput is that of the newest step, or of the whole training once that is known", () => {
  const progress = { epoch: 1, step: 10, samples_per_s: 300 };
  assert.equal(rowOf(jobWith({ progress })).samples_per_s, 300);
  assert.equal(rowOf(jobWith({ progress, summary: { train_samples_per_s: 250, metrics: {} } })).samples_per_s, 250);
});

test("a row loses its reason to wait when its job leaves the queue, and its time left when the job ends", () => {
  const state = { ...jobWith(), status: "running" as const, revision: 2, attempt: 1 };
  const running = withState(rowWith({ waiting: "#1 · no slot is free", eta_s: 5 }), state);
  assert.deepEqual([running.status, running.waiting, running.eta_s, running.revision], ["running", null, 5, 2]);
  const ended = withState(running, { ...state, status: "succeeded", ended_at: "2030-01-01T00:01:00Z" });
  assert.deepEqual([ended.status, ended.eta_s], ["succeeded", null]);
});

test("progress updates a row, and keeps its throughput if it reports none", () => {
  const row = withProgress(rowWith({ samples_per_s: 100 }), { epoch: 2, epochs: 4, step: 20, steps: 40, eta_s: 3 });
  assert.deepEqual([row.epoch, row.epochs, row.step, row.eta_s, row.samples_per_s], [2, 4, 20, 3, 100]);
});

test("the share done is that of the steps, else that of the epochs, else null", () => {
  assert.equal(shareOf(rowWith({ step: 10, steps: 40, epoch: 3, epochs: 4 })), 0.25);
  assert.equal(shareOf(rowWith({ step: 10, steps: null, epoch: 3, epochs: 4 })), 0.75);
  assert.equal(shareOf(rowWith({ steps: null, epochs: null })), null);
});
