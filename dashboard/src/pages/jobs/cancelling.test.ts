import assert from "node:assert/strict";
import { test } from "node:test";
import { Problem } from "../../api/problem.ts";
import { cancelled } from "./cancelling.ts";
import { rowsOf } from "./row.fixture.ts";

test("every job has its outcome, whatever became of those before it", async () => {
  const asked: string[] = [];
  const told: number[] = [];
  const outcomes = await cancelled(
    rowsOf("abcd"),
    async (id) => {
      asked.push(id);
      if (id === "b") throw new Problem(409, "job-ended", "The job has ended", "it succeeded");
      if (id === "c") throw new TypeError("broken");
    },
    (some) => told.push(some.length),
  );
  assert.deepEqual(asked, ["a", "b", "c", "d"]);
  assert.deepEqual(
    outcomes.map(({ refusal }) => refusal),
    [null, "The job has ended: it succeeded", "TypeError: broken", null],
  );
  assert.deepEqual(told, [1, 2, 3, 4]);
});

test("jobs are cancelled one after the other", async () => {
  let atOnce = 0;
  let most = 0;
  await cancelled(
    rowsOf("abc"),
    async () => {
      atOnce += 1;
      most = Math.max(most, atOnce);
      await Promise.resolve();
      atOnce -= 1;
    },
    () => {},
  );
  assert.equal(most, 1);
});
