import assert from "node:assert/strict";
import { test } from "node:test";
import { jobWith, rowWith } from "./row.fixture.ts";
import { rowOf, shareOf, stageOf, usageAt, withProgress, withState } from "./row.ts";

test("a row has the fields of a job that are shown, without its plan", () => {
  const row = rowOf(jobWith({ labels: { team: "vision" } }), "next");
  assert.deepEqual(row.labels, ["team:vision"]);
  assert.deepEqual([row.dataset, row.model, row.global_batch, row.learning_rate], ["digits", "lenet5", 64, 0.002]);
  assert.equal(row.page, "next");
  assert.equal("plan" in row, false);
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

test("a script counts its work in its own units, and without an end only how far it is", () => {
  const own = rowWith({ done: 12, total: 48, step: 5, steps: null, epochs: 30 });
  assert.deepEqual([stageOf(own), shareOf(own)], [["12/48", ""], 0.25]);
  const endless = rowWith({ done: 12, total: null });
  assert.deepEqual([stageOf(endless), shareOf(endless)], [["12", ""], null]);
  assert.deepEqual(stageOf(rowWith({ step: 7, steps: null, epochs: null, epoch: 0 })), ["7", "steps"]);
  assert.deepEqual(stageOf(rowWith({ step: 7, steps: null, epochs: null, epoch: 2 })), ["2", "epochs"]);
  assert.deepEqual(stageOf(rowWith({ step: 7, steps: 9, epochs: null })), ["7/9", "steps"]);
});

test("a row of a script has its command, no dataset or model, and the metric that counts", () => {
  const spec = { code: "c0de", command: ["python", "a b.py", "it's"], dataset: null, model: null, goal: null };
  const row = rowOf(jobWith({ spec, metrics: { mae: { last: 3, best: 2 }, val_mae: { last: 4, best: 4 } } }));
  assert.equal(row.command, `python 'a b.py' 'it'"'"'s'`);
  assert.deepEqual([row.dataset, row.model, row.goal_metric], ["", "", "val_mae"]);
  assert.equal(rowOf(jobWith({ spec })).goal_metric, null);
  assert.equal(rowOf(jobWith()).goal_metric, "val_accuracy");
});

test("the metrics of a live row follow its progress", () => {
  const row = rowWith({ metrics: { val_mae: { last: 3, best: 3, best_epoch: 1 } }, goal_metric: "val_mae" });
  const metrics = { val_mae: 5, mae: 2 };
  const moved = withProgress(row, { epoch: 2, step: 20, metrics });
  assert.deepEqual(moved.metrics, {
    val_mae: { last: 5, best: 3, best_epoch: 1 },
    mae: { last: 2, best: 2, best_epoch: 2 },
  });
  assert.equal(withProgress(moved, { epoch: 2, step: 21, metrics }).metrics, moved.metrics);
});

test("the GPU-hours and the cost of a live job grow after it was read, and those of others do not", () => {
  const row = rowWith({ status: "running", gpus: 4, gpu_hours: 2, cost: 3, read_ms: 0 });
  assert.deepEqual(usageAt(row, 1_800_000), { gpu_hours: 4, cost: 6 });
  assert.equal(usageAt({ ...row, gpu_hours: 0, cost: 0 }, 1_800_000).cost, 0);
  const ended = usageAt({ ...row, status: "failed" }, 1_800_000);
  assert.deepEqual([ended.gpu_hours, ended.cost], [2, 3]);
});
