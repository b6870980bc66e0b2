import assert from "node:assert/strict";
import { test } from "node:test";
import type { Job } from "../../api/types.ts";
import { job } from "./job.fixture.ts";
import { JobStore, type KnownJobs } from "./store.ts";

/** A store whose requests wait until the test calls `answer`. */
function storeWithAnswers() {
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

test("at most four jobs are fetched at a time, and each job once", async () => {
  const { store, fetchedIds, answer } = storeWithAnswers();
  store.want(["a", "b", "c", "d", "e", "a"]);
  assert.deepEqual(fetchedIds, ["a", "b", "c", "d"]);
  await answer("b", job("b"));
  assert.deepEqual(fetchedIds, ["a", "b", "c", "d", "e"]);
  store.want(["b"]);
  assert.equal(fetchedIds.length, 5);
});

test("a job that does not exist is marked as gone and not fetched again", async () => {
  const { store, fetchedIds, answer, knownJobs } = storeWithAnswers();
  store.want(["a"]);
  await answer("a", null);
  store.want(["a"]);
  assert.deepEqual([...knownJobs().gone], ["a"]);
  assert.deepEqual(fetchedIds, ["a"]);
});

const state = (id: string, revision: number, ended_at: string | null = null) =>
  ({ id, revision, status: ended_at ? "succeeded" : "running", started_at: "2030-01-01T00:00:00Z", ended_at }) as const;

test("a newer state event updates its job, and older events and unknown jobs are ignored", () => {
  const { store, fetchedIds, knownJobs } = storeWithAnswers();
  store.put([job("a", { revision: 4 })]);
  store.heard(state("a", 5));
  store.heard({ ...state("a", 4), status: "queued" });
  store.heard(state("stranger", 9));
  assert.equal(knownJobs().jobs.get("a")?.status, "running");
  assert.equal(knownJobs().jobs.has("stranger"), false);
  assert.deepEqual(fetchedIds, []);
});

test("a job that has ended is fetched once more, for its results", async () => {
  const { store, fetchedIds, answer, knownJobs } = storeWithAnswers();
  store.put([{ ...job("a"), ended_at: null }]);
  store.heard(state("a", 5, "2030-01-01T00:01:00Z"));
  store.heard(state("a", 6, "2030-01-01T00:01:00Z"));
  assert.deepEqual(fetchedIds, ["a"]);
  await answer("a", { ...job("a", { revision: 6, summary: { val_accuracy: 0.9 } }) });
  assert.equal(knownJobs().jobs.get("a")?.summary?.val_accuracy, 0.9);
});

test("a recheck fetches only live jobs without an event since the last recheck", () => {
  const { store, fetchedIds } = storeWithAnswers();
  store.put(["silent", "updated"].map((id) => ({ ...job(id), ended_at: null })));
  store.put([{ ...job("ended"), ended_at: "2030-01-01T00:01:00Z" }]);
  store.advanced("updated", { epoch: 1, step: 1 });
  store.recheck();
  assert.deepEqual(fetchedIds, ["silent"]);
  store.recheck();
  assert.deepEqual(fetchedIds, ["silent", "silent", "updated"]);
});

test("an older version of a job does not replace a newer one", () => {
  const { store, knownJobs } = storeWithAnswers();
  store.put([job("a", { revision: 2, name: "new" })]);
  store.put([job("a", { revision: 1, name: "old" })]);
  assert.equal(knownJobs().jobs.get("a")?.name, "new");
});

test("a progress event updates its job without a request, and unknown jobs are ignored", () => {
  const { store, fetchedIds, knownJobs } = storeWithAnswers();
  store.put([job("a")]);
  store.advanced("a", { epoch: 3, step: 30 });
  store.advanced("stranger", { epoch: 1, step: 1 });
  assert.equal(knownJobs().jobs.get("a")?.progress.epoch, 3);
  assert.equal(knownJobs().jobs.has("stranger"), false);
  assert.deepEqual(fetchedIds, []);
});

test("a deleted job is gone, also if an older list has it, and unknown jobs are ignored", () => {
  const { store, knownJobs } = storeWithAnswers();
  store.put([job("a"), job("b")]);
  store.deleted("a");
  store.deleted("stranger");
  store.put([job("a")]);
  assert.deepEqual([[...knownJobs().jobs.keys()], [...knownJobs().gone]], [["b"], ["a"]]);
});

test("a failed fetch drops the waiting jobs until they are wanted again", async () => {
  const { store, fetchedIds, answer, failures } = storeWithAnswers();
  store.want(["a", "b", "c", "d", "e"]);
  await answer("a", new Error("away"));
  assert.equal(failures.length, 1);
  assert.deepEqual(fetchedIds, ["a", "b", "c", "d"]);
  store.want(["e"]);
  assert.deepEqual(fetchedIds, ["a", "b", "c", "d", "e"]);
});
