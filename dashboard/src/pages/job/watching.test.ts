import assert from "node:assert/strict";
import { test } from "node:test";
import { MOST_WATCHED, messageOf, Watcher } from "./watching.ts";

type Jobs = Record<string, { ended_at: string | null; alerts?: number } | Error>;

function watcherOf(jobs: Jobs): { watcher: Watcher; said: string[] } {
  const said: string[] = [];
  const watcher = new Watcher({
    read: async (id) => {
      const job = jobs[id];
      if (job === undefined || job instanceof Error) throw job ?? new Error("gone");
      return { id, name: id, status: "failed", end_reason: "stalled", alerts: 0, last_alert: null, ...job };
    },
    isGone: (error) => (error as Error).message === "gone",
    notify: ({ id }) => said.push(id),
  });
  return { watcher, said };
}

test("a watched job is reported once when it has ended", async () => {
  const jobs: Jobs = { a: { ended_at: null }, b: { ended_at: null } };
  const { watcher, said } = watcherOf(jobs);
  watcher.toggle("a");
  await watcher.look();
  assert.deepEqual(said, []);
  jobs["a"] = { ended_at: "2030-01-01T00:00:00Z" };
  jobs["b"] = { ended_at: "2030-01-01T00:00:00Z" };
  await watcher.look();
  await watcher.look();
  assert.deepEqual(said, ["a"]);
  assert.equal(watcher.ids.peek().size, 0); // so no timer is left
});

test("a watched job is reported for each new alert, and goes on being watched", async () => {
  const jobs: Jobs = { a: { ended_at: null, alerts: 2 } };
  const { watcher, said } = watcherOf(jobs);
  watcher.toggle("a", 2);
  await watcher.look();
  assert.deepEqual(said, []);
  jobs["a"] = { ended_at: null, alerts: 3 };
  await watcher.look();
  await watcher.look();
  assert.deepEqual(said, ["a"]);
  watcher.toggle("a");
  watcher.toggle("a", 3);
  await watcher.look();
  assert.deepEqual(said, ["a"]);
  watcher.toggle("a"); // ends the timer
});

test("a job is no longer watched after a second click, or when it is gone", async () => {
  const jobs: Jobs = { a: { ended_at: "2030-01-01T00:00:00Z" } };
  const { watcher, said } = watcherOf(jobs);
  watcher.toggle("a");
  watcher.toggle("a");
  watcher.toggle("removed");
  await watcher.look();
  assert.deepEqual([said, watcher.ids.peek().size], [[], 0]);
});

test("a job that cannot be read now is read again", async () => {
  const jobs: Jobs = { a: new Error("away") };
  const { watcher, said } = watcherOf(jobs);
  watcher.toggle("a");
  await watcher.look();
  assert.equal(watcher.ids.peek().has("a"), true);
  jobs["a"] = { ended_at: "2030-01-01T00:00:00Z" };
  await watcher.look();
  assert.deepEqual(said, ["a"]);
});

test("a limited number of jobs is watched", () => {
  const { watcher } = watcherOf({});
  for (let i = 0; i <= MOST_WATCHED; i++) watcher.toggle(`job${i}`);
  assert.equal(watcher.ids.peek().size, MOST_WATCHED);
  for (let i = 0; i < MOST_WATCHED; i++) watcher.toggle(`job${i}`); // ends the timer
});

test("the message says how the job ended, and why if that is unusual", () => {
  const job = { id: "a", name: "mlp", ended_at: "2030-01-01T00:00:00Z", alerts: 0, last_alert: null };
  assert.deepEqual(messageOf({ ...job, status: "succeeded", end_reason: "completed" }), {
    title: "mlp: succeeded",
    body: "",
  });
  const alert = { at: "", level: "error", title: "NaN", text: "at step 3" } as const;
  assert.deepEqual(messageOf({ ...job, status: "running", end_reason: null, ended_at: null, last_alert: alert }), {
    title: "mlp: NaN",
    body: "at step 3",
  });
  assert.equal(messageOf({ ...job, status: "failed", end_reason: "out_of_memory" }).body, "out of memory");
});
