import assert from "node:assert/strict";
import { test } from "node:test";
import type { Queue } from "../../api/types.ts";
import { concernsQueue } from "./news.ts";

test("news of jobs that wait or waited concern the queue, those of running jobs do not", () => {
  const queue = { items: [{ id: "waits" }] } as Queue;
  assert.equal(concernsQueue(queue, { id: "new", status: "queued" }), true);
  assert.equal(concernsQueue(queue, { id: "waits", status: "cancelled" }), true);
  assert.equal(concernsQueue(queue, { id: "runs", status: "running" }), false);
  assert.equal(concernsQueue(undefined, { id: "runs", status: "running" }), false);
});
