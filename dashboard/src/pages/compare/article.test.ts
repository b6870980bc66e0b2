import assert from "node:assert/strict";
import { test } from "node:test";
import { articlePath } from "./article.ts";
import { job } from "./job.fixture.ts";
import { runsOf } from "./runs.ts";

const jobs = new Map(["a", "b", "c"].map((id) => [id, job(id)]));
const runs = runsOf([...jobs.keys()], jobs, [], { hidden: new Set(["b"]), best: null });

function blockOf(axis: string, group: string): string | null {
  return new URL(articlePath(runs, ["loss", "val_loss"], axis, group), "http://x").searchParams.get("text");
}

test("a comparison is a block with the runs that are shown", () => {
  assert.equal(blockOf("step", ""), "```hora\nchart: loss, val_loss\njobs: a, c\naxis: step\n```\n");
});

test("what a block cannot have is left out", () => {
  assert.equal(blockOf("clock", "plan.global_batch"), "```hora\nchart: loss, val_loss\njobs: a, c\n```\n");
});

test("groups are over epochs, and by a column of jobs", () => {
  assert.match(blockOf("step", "labels.team") ?? "", /jobs: a, c\ngroup: label\.team\n/);
  assert.match(blockOf("epoch", "batch_size") ?? "", /group: spec\.batch_size\n/);
  assert.match(blockOf("epoch", "optimizer") ?? "", /group: spec\.optimizer\.name\n/);
});
