import assert from "node:assert/strict";
import { test } from "node:test";
import { Problem } from "../../api/problem.ts";
import { cancelled } from "./cancelling.ts";
import { rowsOf } from "./row.fixture.ts";

test("every job is cancelled and gets its outcome, even after another one failed", async () => {
  const cancelledIds: string[] = [];
  const outcomeCounts: number[] = [];
  const outcomes = await cancelled(
    rowsOf("abcd"),
    async (id) => {
      cancelledIds.push(id);
      if (id === "b") throw new Problem(409, "job-ended", "The job has ended", "it succeeded");
      if (id === "c") throw new TypeError("broken");
    },
    (some) => outcomeCounts.push(some.length),
  );
  assert.deepEqual(cancelledIds, ["a", "b", "c", "d"]);
  assert.deepEqual(
    outcomes.map(({ refusal }) => refusal),
    [null, "The job has ended: it succeeded", "TypeError: broken", null],
  );
  assert.deepEqual(outcomeCounts, [1, 2, 3, 4]);
});

test("jobs are cancelled one after the other", async () => {
  let atOnce = 0;
  let mostAtOnce = 0;
  await cancelled(
    rowsOf("abc"),
    async () => {
      atOnce += 1;
      mostAtOnce = Math.max(mostAtOnce, atOnce);
      await Promise.resolve();
      atOnce -= 1;
    },
    () => {},
  );
  assert.equal(mostAtOnce, 1);
});
