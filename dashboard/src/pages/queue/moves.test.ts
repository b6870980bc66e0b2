import assert from "node:assert/strict";
import { test } from "node:test";
import type { Me, Project, QueuedJob } from "../../api/types.ts";
import { ceilingOf, compared, planOf, planText } from "./moves.ts";

function job(id: string, priority: number, turn: number, created_at = "2030-01-01T00:00:00Z"): QueuedJob {
  return { id, name: id, project: "vision", priority, turn, created_at, position: 0 } as QueuedJob;
}

function queue(...jobs: QueuedJob[]): QueuedJob[] {
  return [...jobs].sort(compared).map((one, index) => ({ ...one, position: index + 1 }));
}

function plan(rows: QueuedJob[], id: string, index: number, ceiling = 100) {
  const moved = rows.find((one) => one.id === id);
  assert.ok(moved);
  return planOf(rows, moved, index, ceiling);
}

const ids = (rows: readonly QueuedJob[]): string[] => rows.map(({ id }) => id);

const ROWS = queue(
  job("a", 60, 1),
  job("b", 50, 1),
  job("c", 50, 2),
  job("d", 50, 3),
  job("e", 40, 1),
  job("f", 40, 2),
);

test("jobs come by priority, then by turn, then by age", () => {
  assert.deepEqual(ids(ROWS), ["a", "b", "c", "d", "e", "f"]);
  const ages = queue(
    job("z", 50, 1, "2030-01-01T00:00:00Z"),
    job("y", 50, 1, "2030-01-01T00:00:00.5Z"),
    job("x", 50, 1, "2030-01-01T00:00:00.123456Z"),
    job("w", 50, 1, "2030-01-01T00:00:00.123456Z"),
  );
  assert.deepEqual(ids(ages), ["z", "w", "x", "y"]);
});

test("the same priority is enough if the turn comes first", () => {
  const moved = plan(ROWS, "e", 2);
  assert.ok(moved.kind === "move");
  assert.deepEqual([moved.priority, moved.place, ids(moved.passed)], [50, 3, ["c", "d"]]);
});

test("otherwise it needs one more, and comes before all of that priority", () => {
  const moved = plan(ROWS, "d", 2);
  assert.ok(moved.kind === "move");
  assert.deepEqual([moved.priority, moved.place, ids(moved.passed)], [51, 2, ["b", "c"]]);
  assert.equal(
    planText(moved, ROWS[3] as QueuedJob, 3, 6),
    "Priority 50 → 51. It comes before 2 jobs, to place 2. Place 3 cannot be reached: jobs come by priority, and those of one priority by turns.",
  );
});

test("down works in the same way", () => {
  const behind = plan(ROWS, "d", 4);
  assert.ok(behind.kind === "move");
  assert.deepEqual([behind.priority, behind.place, ids(behind.passed)], [40, 6, ["e", "f"]]);
  const lower = plan(ROWS, "b", 3);
  assert.ok(lower.kind === "move");
  assert.deepEqual([lower.priority, lower.place, ids(lower.passed)], [49, 4, ["c", "d"]]);
  assert.equal(planText(lower, ROWS[1] as QueuedJob, 4, 6), "Priority 50 → 49. It comes after 2 jobs, to place 4.");
});

test("behind the last job that is shown there may be more to pass", () => {
  assert.match(planText(plan(ROWS, "d", 4), ROWS[3] as QueuedJob, 6, 6), /to place 6 or behind it\.$/);
});

test("at its own place nothing changes", () => {
  assert.deepEqual(plan(ROWS, "c", 2), { kind: "none" });
  assert.deepEqual(planOf(ROWS, job("gone", 50, 1), 0, 100), { kind: "none" });
  assert.deepEqual(planOf([], job("gone", 50, 1), 0, 100), { kind: "none" });
});

test("what no priority reaches says why", () => {
  const ends = queue(job("top", 100, 1), job("next", 100, 2), job("last", 0, 1), job("end", 0, 2));
  const above = plan(ends, "next", 0);
  assert.ok(above.kind === "impossible");
  assert.match(above.why, /top has priority 100, the highest/);
  const below = plan(ends, "last", 3);
  assert.ok(below.kind === "impossible");
  assert.match(below.why, /end has priority 0, the lowest/);
});

test("the ceiling of the project holds for all but admins", () => {
  const refused = plan(ROWS, "d", 1, 50);
  assert.ok(refused.kind === "impossible");
  assert.match(refused.why, /In the project vision only admins go above 50/);
  const kept = queue(job("a", 70, 1), job("b", 70, 2), job("c", 60, 1));
  assert.equal(plan(kept, "a", 1, 50).kind, "move"); // down is always allowed
  const admin = { scope: "admin" } as Me;
  const user = { scope: "submit" } as Me;
  assert.equal(ceilingOf(admin, { max_priority: 30 } as Project), 100);
  assert.equal(ceilingOf(user, { max_priority: 80 } as Project), 80);
  assert.equal(ceilingOf(user, { max_priority: null } as Project), 50);
  assert.equal(ceilingOf(undefined, undefined), 50);
});

test("every plan puts a job at the place that it says", () => {
  for (const one of ROWS)
    for (let index = 0; index < ROWS.length; index++) {
      const result = planOf(ROWS, one, index, 100);
      if (result.kind !== "move") continue;
      const after = queue(...ROWS.map((row) => (row.id === one.id ? { ...row, priority: result.priority } : row)));
      assert.equal(after.find(({ id }) => id === one.id)?.position, result.place);
      // It is at least as far as the person wanted.
      if (index < one.position - 1) assert.ok(result.place <= index + 1);
      else assert.ok(result.place >= index + 1);
    }
});
