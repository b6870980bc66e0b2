import assert from "node:assert/strict";
import { test } from "node:test";
import type { Job } from "../../api/types.ts";
import { queueOf } from "./queue.ts";

function job(id: string, position: number | null, status: Job["status"] = "queued"): Job {
  return { id, status, waiting: { position, reason: "is next" } } as Job;
}

test("queued jobs are sorted by position, and those without one are listed apart", () => {
  const { waiting, outOfTurn } = queueOf([job("c", 10), job("a", 2), job("p", null), job("b", 9)]);
  assert.deepEqual(
    waiting.map(({ id }) => id),
    ["a", "b", "c"],
  );
  assert.deepEqual(
    outOfTurn.map(({ id }) => id),
    ["p"],
  );
});

test("a job that is no longer queued is left out", () => {
  assert.deepEqual(queueOf([job("a", 1, "launching")]), { waiting: [], outOfTurn: [] });
});
