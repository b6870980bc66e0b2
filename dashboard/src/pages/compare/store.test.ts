import assert from "node:assert/strict";
import { test } from "node:test";
import type { Job } from "../../api/types.ts";
import { job } from "./job.fixture.ts";
import { JobStore, type KnownJobs } from "./store.ts";

/** A store whose questions are answered by hand. */
function played() {
  const fetchedIds: string[] = [];
  const answers = new Map<string, (job: Job | null | Error) => void>();
  let knownJobs: KnownJobs = { jobs: new Map(), gone: new Set() };
  const failures: unknown[] = [];
  const fetchJob = (id: string): Promise<Job | null> => {
    fetchedIds.push(id);
    return new Promise((resolve, reject) => {
      answers.set(id, (answered) => (answered instanceof Error ? reject(answered) : resolve(answered)));
    });
  };
  const store = new JobStore(
    fetchJob,
    (now) => {
      knownJobs = now;
    },
    (error) => failures.push(error),
  );
  const answer = async (id: string, answered: Job | null | Error): Promise<void> => {
    answers.get(id)?.(answered);
    await new Promise(setImmediate);
  };
  return { store, fetchedIds, answer, failures, knownJobs: () => knownJobs };
}

test("a few jobs are fetchedIds for at once, each one once", async () => {
  const { store, fetchedIds, answer } = played();
  store.want(["a", "b", "c", "d", "e", "a"]);
  assert.deepEqual(fetchedIds, ["a", "b", "c", "d"]);
  await answer("b", job("b"));
  assert.deepEqual(fetchedIds, ["a", "b", "c", "d", "e"]);
  store.want(["b"]);
  assert.equal(fetchedIds.length, 5);
});

test("a job that there is not is known to be gone, and not fetchedIds for again", async () => {
  const { store, fetchedIds, answer, knownJobs } = played();
  store.want(["a"]);
  await answer("a", null);
  store.want(["a"]);
  assert.deepEqual([...knownJobs().gone], ["a"]);
  assert.deepEqual(fetchedIds, ["a"]);
});

const state = (id: string, revision: number, ended_at: string | null = null) =>
  ({ id, revision, status: ended_at ? "succeeded" : "running", started_at: "2030-01-01T00:00:00Z", ended_at }) as const;

test("what is told of a job is taken in, and no older news", () => {
  const { store, fetchedIds, knownJobs } = played();
  store.put([job("a", { revision: 4 })]);
  store.heard(state("a", 5));
  store.heard({ ...state("a", 4), status: "queued" });
  store.heard(state("stranger", 9));
  assert.equal(knownJobs().jobs.get("a")?.status, "running");
  assert.equal(knownJobs().jobs.has("stranger"), false);
  assert.deepEqual(fetchedIds, []);
});

test("a job that has ended is read once more, for what came of it", async () => {
  const { store, fetchedIds, answer, knownJobs } = played();
  store.put([{ ...job("a"), ended_at: null }]);
  store.heard(state("a", 5, "2030-01-01T00:01:00Z"));
  store.heard(state("a", 6, "2030-01-01T00:01:00Z"));
  assert.deepEqual(fetchedIds, ["a"]);
  await answer("a", { ...job("a", { revision: 6, summary: { val_accuracy: 0.9 } }) });
  assert.equal(knownJobs().jobs.get("a")?.summary?.val_accuracy, 0.9);
});

test("a job that lives and of which nothing is told is read again, and no other one", () => {
  const { store, fetchedIds } = played();
  store.put(["silent", "told"].map((id) => ({ ...job(id), ended_at: null })));
  store.put([{ ...job("ended"), ended_at: "2030-01-01T00:01:00Z" }]);
  store.advanced("told", { epoch: 1, step: 1 });
  store.recheck();
  assert.deepEqual(fetchedIds, ["silent"]);
  store.recheck();
  assert.deepEqual(fetchedIds, ["silent", "silent", "told"]);
});

test("an older answer does not go before a newer one", () => {
  const { store, knownJobs } = played();
  store.put([job("a", { revision: 2, name: "new" })]);
  store.put([job("a", { revision: 1, name: "old" })]);
  assert.equal(knownJobs().jobs.get("a")?.name, "new");
});

test("progress is taken in without a question", () => {
  const { store, fetchedIds, knownJobs } = played();
  store.put([job("a")]);
  store.advanced("a", { epoch: 3, step: 30 });
  store.advanced("stranger", { epoch: 1, step: 1 });
  assert.equal(knownJobs().jobs.get("a")?.progress.epoch, 3);
  assert.equal(knownJobs().jobs.has("stranger"), false);
  assert.deepEqual(fetchedIds, []);
});

test("a failure ends the round; what is wanted again is fetchedIds for again", async () => {
  const { store, fetchedIds, answer, failures } = played();
  store.want(["a", "b", "c", "d", "e"]);
  await answer("a", new Error("away"));
  assert.equal(failures.length, 1);
  assert.deepEqual(fetchedIds, ["a", "b", "c", "d"]);
  store.want(["e"]);
  assert.deepEqual(fetchedIds, ["a", "b", "c", "d", "e"]);
});
