import assert from "node:assert/strict";
import { test } from "node:test";
import type { Job } from "../../api/types.ts";
import { csvLine } from "../../csv.ts";
import cases from "./columns.cases.json" with { type: "json" };
import type { ColumnId } from "./columns.ts";
import { csvColumns, csvOf, MOST_JOBS } from "./csv.ts";
import { fieldKeys } from "./fields.ts";
import { jobWith, rowsOf, rowWith } from "./row.fixture.ts";
import { rowOf } from "./row.ts";

const JOB = rowOf(jobWith(cases.job as unknown as Partial<Job>));

test("each column has the name and the exact value of the API", () => {
  for (const [id, expected] of Object.entries(cases.columns)) {
    const [first, ...columns] = csvColumns([id as ColumnId], "", 0);
    assert.deepEqual(first?.[1](JOB), JOB.id);
    assert.deepEqual(
      columns.map(([title, read]) => [title, read(JOB)]),
      expected,
      id,
    );
  }
});

test("a cell is quoted where it has to be, and is no formula", () => {
  for (const [value, expected] of cases.cells) assert.equal(csvLine([value as string]), `${expected}\r\n`);
});

test("the duration of a job that runs is up to now", () => {
  const row = rowWith({ started_at: "2030-01-01T00:00:00Z" });
  const [, duration] = csvColumns(["duration"], "", Date.parse("2030-01-01T00:01:00Z"));
  assert.deepEqual([duration?.[1](row), duration?.[1](rowWith())], [60, null]);
});

test("a file has all pages, each job once, after a line of titles", async () => {
  const pages = { "": ["ab", "1"], "1": ["bc", null] } as const;
  const counts: number[] = [];
  const { parts, count, isCut } = await csvOf(
    ["owner"],
    "",
    async (cursor) => {
      const [ids, nextCursor] = pages[(cursor ?? "") as keyof typeof pages];
      return { rows: rowsOf(ids), nextCursor };
    },
    (some) => counts.push(some),
  );
  assert.equal(parts.join(""), "\ufeffid,owner\r\na,ada\r\nb,ada\r\nc,ada\r\n");
  assert.deepEqual([count, isCut, counts], [3, false, [2, 3]]);
});

test("a file has a limited number of jobs, and says that it was cut", async () => {
  let read = 0;
  const readPage = async () => {
    const rows = Array.from({ length: 30_000 }, () => rowWith({ id: `job${read++}` }));
    return { rows, nextCursor: "more" };
  };
  const { count, isCut } = await csvOf(["name"], "", readPage, () => {});
  assert.deepEqual([count, isCut, read], [MOST_JOBS, true, 120_000]);
});

test("the loaded jobs offer their fields, labels and results as columns", () => {
  const keys = fieldKeys([JOB]);
  for (const key of ["spec.optimizer.momentum", "spec.params.lr.max", "label.team", "last.val_loss", "test.mae"])
    assert.ok((keys as string[]).includes(key), key);
  assert.equal(new Set(keys).size, keys.length);
});
