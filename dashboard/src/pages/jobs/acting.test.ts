import assert from "node:assert/strict";
import { test } from "node:test";
import { Problem } from "../../api/problem.ts";
import { actedOn, labelChange, takenBack } from "./acting.ts";
import { rowsOf } from "./row.fixture.ts";

test("every job gets the request and its outcome, even after another one failed", async () => {
  const cancelledIds: string[] = [];
  const outcomeCounts: number[] = [];
  const outcomes = await actedOn(
    rowsOf("abcd"),
    async ({ id }) => {
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

test("jobs get their requests one after the other", async () => {
  let atOnce = 0;
  let mostAtOnce = 0;
  await actedOn(
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

test("a label is added by its key and value, and removed by its key", () => {
  assert.deepEqual(labelChange(" team:a:b ", true), { team: "a:b" });
  assert.deepEqual(labelChange("team", false), { team: null });
  assert.deepEqual(labelChange("team:a", false), { team: null });
  assert.deepEqual([labelChange("team", true), labelChange(":a", true), labelChange("", false)], [null, null, null]);
});

test("what was changed is taken back: each job gets its own values again", () => {
  const [row] = rowsOf("a");
  assert.ok(row);
  const job = { ...row, starred: false, project: "vision", labels: ["team:a:b", "teams:c"] };
  assert.deepEqual(takenBack({ starred: true }, job), { starred: false });
  assert.deepEqual(takenBack({ project: "night" }, job), { project: "vision" });
  assert.deepEqual(takenBack({ labels: { team: null, new: "x" } }, job), { labels: { team: "a:b", new: null } });
});
