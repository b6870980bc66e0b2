import assert from "node:assert/strict";
import { test } from "node:test";
import type { UsageReport } from "../../api/types.ts";
import { hoursByPeriod } from "./periods.ts";

function report(first_day: string, last_day: string, used: Record<string, number[]>, month = true): UsageReport {
  const items = Object.entries(used).flatMap(([period, hours]) =>
    hours.map((gpu_hours) => ({ period, gpu_hours, jobs: 1, cost: null, project: "p" })),
  );
  const total = { gpu_hours: 0, jobs: 0, cost: null };
  return { first_day, last_day, by: ["project"], period_length: month ? "month" : "day", items, total };
}

test("months without usage are zero, and rows of a month add up", () => {
  const used = { "2025-12-01": [1, 2], "2026-02-01": [4] };
  assert.deepEqual(
    [...hoursByPeriod(report("2025-12-31", "2026-03-01", used))],
    [
      ["2025-12", 3],
      ["2026-01", 0],
      ["2026-02", 4],
      ["2026-03", 0],
    ],
  );
});

test("days go over the leap day and the changes of clocks", () => {
  const days = [...hoursByPeriod(report("2024-02-27", "2024-11-30", { "2024-02-29": [2] }, false)).keys()];
  assert.equal(days.length, 278);
  assert.equal(new Set(days).size, 278);
  assert.deepEqual(days.slice(1, 4), ["2024-02-28", "2024-02-29", "2024-03-01"]);
  assert.equal(days.at(-1), "2024-11-30");
});
