import assert from "node:assert/strict";
import { test } from "node:test";
import { Problem } from "../../api/problem.ts";
import { markDeleted } from "../../deleted.ts";
import { Rereader, readsOf } from "./rereading.ts";
import { idsOf, rowsOf, rowWith } from "./row.fixture.ts";
import type { Row } from "./row.ts";

function stale(page: string | null, ids: string, isAlone = false) {
  return [...ids].map((id) => ({ id, page, isAlone }));
}

test("many stale jobs of a page are read with the page, a few are read one by one", () => {
  assert.deepEqual(readsOf([...stale(null, "abcd"), ...stale("p", "ef")]), { pages: [null], jobs: ["e", "f"] });
});

test("a job that is no longer on its page is read by itself", () => {
  assert.deepEqual(readsOf(stale("p", "abcdef", true)), { pages: [], jobs: ["a", "b", "c", "d", "e", "f"] });
});

test("a round makes at most six requests", () => {
  const staleJobs = [..."12345678"].flatMap((page) => stale(page, `${page}abcd`));
  assert.equal(readsOf(staleJobs).pages.length, 6);
  assert.equal(readsOf([...stale(null, "abcd"), ...stale("p", "0123456789", true)]).jobs.length, 5);
});

interface TestReader {
  reader: Rereader;
  requests: string[];
  takenRows: Row[];
  dropped: string[];
}

function readerOf(pages: Record<string, string>, refuse: (id: string) => Problem | null = () => null): TestReader {
  const [requests, takenRows, dropped]: [string[], Row[], string[]] = [[], [], []];
  const reader = new Rereader({
    readPage: async (cursor) => {
      requests.push(`page ${cursor}`);
      return rowsOf(pages[String(cursor)] ?? "");
    },
    readJob: async (id) => {
      requests.push(id);
      const problem = refuse(id);
      if (problem !== null) throw problem;
      return rowWith({ id });
    },
    take: (rows) => takenRows.push(...rows),
    drop: (id) => dropped.push(id),
  });
  return { reader, requests, takenRows, dropped };
}

test("a round reads a page, and the next round reads the jobs that the page no longer has", async () => {
  const { reader, requests, takenRows } = readerOf({ p: "abcx" });
  reader.add(rowsOf("abcd").map((row) => ({ ...row, page: "p" })));
  await reader.round();
  assert.deepEqual([requests, idsOf(takenRows)], [["page p"], "abcx"]);
  await reader.round();
  assert.deepEqual([requests, idsOf(takenRows)], [["page p", "d"], "abcxd"]);
  await reader.round();
  assert.equal(requests.length, 2);
  reader.close();
});

test("a job that no longer exists is dropped, one that could not be read is tried again", async () => {
  const problems = { a: new Problem(404, "no-such-job", "No such job"), b: new Problem(0, "away", "Away") };
  const { reader, requests, dropped } = readerOf({}, (id) => problems[id as "a" | "b"]);
  reader.add(rowsOf("ab"));
  await reader.round();
  await reader.round();
  assert.deepEqual([requests, dropped], [["a", "b", "b"], ["a"]]);
  reader.close();
});

test("a job that was read elsewhere is not read again", async () => {
  const { reader, requests } = readerOf({});
  reader.add(rowsOf("ab"));
  reader.settle(rowsOf("a"));
  await reader.round();
  assert.deepEqual(requests, ["b"]);
  reader.close();
});

test("a job that was deleted meanwhile is not read", async () => {
  const { reader, requests } = readerOf({});
  reader.add(rowsOf("xy"));
  markDeleted({ id: "x" });
  await reader.round();
  reader.close();
  assert.deepEqual(requests, ["y"]);
});
