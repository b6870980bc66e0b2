import assert from "node:assert/strict";
import { test } from "node:test";
import { Problem } from "../../api/problem.ts";
import { Rereader, readsOf } from "./rereading.ts";
import { idsOf, rowsOf, rowWith } from "./row.fixture.ts";
import type { Row } from "./row.ts";

function stale(page: string | null, ids: string, isAlone = false) {
  return [...ids].map((id) => ({ id, page, isAlone }));
}

test("many jobs of a page are read with the page, few one by one", () => {
  assert.deepEqual(readsOf([...stale(null, "abcd"), ...stale("p", "ef")]), { pages: [null], jobs: ["e", "f"] });
});

test("a job that its page no longer has is read by itself", () => {
  assert.deepEqual(readsOf(stale("p", "abcdef", true)), { pages: [], jobs: ["a", "b", "c", "d", "e", "f"] });
});

test("a round has a few requests at most, whatever there is to read", () => {
  const much = [..."12345678"].flatMap((page) => stale(page, `${page}abcd`));
  assert.equal(readsOf(much).pages.length, 6);
  assert.equal(readsOf([...stale(null, "abcd"), ...stale("p", "0123456789", true)]).jobs.length, 5);
});

interface Played {
  reader: Rereader;
  requests: string[];
  takenRows: Row[];
  dropped: string[];
}

function played(pages: Record<string, string>, refuse: (id: string) => Problem | null = () => null): Played {
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

test("what a page brought is read, what it has lost is read in the next round", async () => {
  const { reader, requests, takenRows } = played({ p: "abcx" });
  reader.add(rowsOf("abcd").map((row) => ({ ...row, page: "p" })));
  await reader.round();
  assert.deepEqual([requests, idsOf(takenRows)], [["page p"], "abcx"]);
  await reader.round();
  assert.deepEqual([requests, idsOf(takenRows)], [["page p", "d"], "abcxd"]);
  await reader.round();
  assert.equal(requests.length, 2);
  reader.close();
});

test("a job that is no more is dropped, one that could not be read is tried again", async () => {
  const problems = { a: new Problem(404, "no-such-job", "No such job"), b: new Problem(0, "away", "Away") };
  const { reader, requests, dropped } = played({}, (id) => problems[id as "a" | "b"]);
  reader.add(rowsOf("ab"));
  await reader.round();
  await reader.round();
  assert.deepEqual([requests, dropped], [["a", "b", "b"], ["a"]]);
  reader.close();
});

test("what somebody else has read is not read again", async () => {
  const { reader, requests } = played({});
  reader.add(rowsOf("ab"));
  reader.settle(rowsOf("a"));
  await reader.round();
  assert.deepEqual(requests, ["b"]);
  reader.close();
});
