import assert from "node:assert/strict";
import { test } from "node:test";
import { type JobList, withHead, withNews, without, withRows, withTail } from "./list.ts";
import { idsOf, jobWith, rowsOf, rowWith } from "./row.fixture.ts";

function list(ids: string, nextCursor: string | null): JobList {
  return { rows: rowsOf(ids), nextCursor };
}

test("new jobs come in above, and nothing that is loaded goes", () => {
  const now = withHead(list("dcba", "old"), list("fed", "new"));
  assert.equal(idsOf(now.rows), "fedcba");
  assert.equal(now.nextCursor, "old");
});

test("a first page that nothing known is on replaces the list: what is between is not known", () => {
  const now = withHead(list("cba", "old"), list("zyx", "new"));
  assert.equal(idsOf(now.rows), "zyx");
  assert.equal(now.nextCursor, "new");
});

test("where a row left the first page, what is behind it is loaded again", () => {
  const now = withHead(list("fedcba", "old"), list("fdc", "new"));
  assert.equal(idsOf(now.rows), "fdc");
  assert.equal(now.nextCursor, "new");
});

test("where a row has moved up from far behind, what is behind the page is loaded again", () => {
  const now = withHead(list("abcdef", "old"), list("eab", "new"));
  assert.equal(idsOf(now.rows), "eabcdf"); // it left one gap, which closes
  assert.equal(idsOf(withHead(list("abcdef", "old"), list("abe", "new")).rows), "abe");
});

test("a first page that is all there is, is the list", () => {
  const now = withHead(list("dcba", null), list("dc", null));
  assert.equal(idsOf(now.rows), "dc");
  assert.equal(now.nextCursor, null);
});

test("a first page longer than what was loaded says where the next one begins", () => {
  const now = withHead(list("cb", "old"), list("cba", "new"));
  assert.equal(idsOf(now.rows), "cba");
  assert.equal(now.nextCursor, "new");
});

test("a page that was read before the stream told more does not undo it", () => {
  const before = { rows: [rowWith({ id: "a", status: "running", revision: 5 })], nextCursor: null };
  const page = { rows: [rowWith({ id: "a", status: "queued", revision: 4 })], nextCursor: null };
  assert.equal(withHead(before, page).rows[0]?.status, "running");
  assert.equal(withRows(before, page.rows), before);
  const newer = withRows(before, [rowWith({ id: "a", status: "failed", revision: 6 })]);
  assert.equal(newer.rows[0]?.status, "failed");
});

test("a page behind the list has no row twice", () => {
  const now = withTail(list("edc", "x"), list("cba", null));
  assert.equal(idsOf(now.rows), "edcba");
  assert.equal(now.nextCursor, null);
});

test("a row that is read again stays in its place, and knows the page that it came with", () => {
  const before = { rows: [rowWith({ id: "a", page: "p" }), rowWith({ id: "b", page: "p" })], nextCursor: null };
  const now = withRows(before, [rowWith({ id: "b", name: "other", page: null })]);
  assert.equal(idsOf(now.rows), "ab");
  assert.deepEqual([now.rows[1]?.name, now.rows[1]?.page], ["other", "p"]);
});

test("rows that are gone go, and a list without them is the same one", () => {
  const before = list("cba", "x");
  assert.equal(idsOf(without(before, (row) => row.id === "b").rows), "ca");
  assert.equal(
    without(before, (row) => row.id === "z"),
    before,
  );
});

test("news change the rows that they are of, in place, and say which are to be read", () => {
  const before = list("ba", "x");
  const state = { ...jobWith({ id: "a" }), status: "launching" as const, revision: 2 };
  const { list: now, stale } = withNews(before, {
    states: new Map([["a", state]]),
    progress: new Map([["b", { epoch: 1, step: 7 }]]),
  });
  assert.deepEqual([now.rows[0]?.step, now.rows[1]?.status], [7, "launching"]);
  assert.equal(idsOf(stale), "a");
});

test("what is told twice changes nothing, and progress does not wake a job that ended", () => {
  const row = rowWith({ id: "a", status: "succeeded", ended_at: "2030-01-01T00:01:00Z", revision: 3 });
  const before = { rows: [row], nextCursor: null };
  const state = { ...jobWith({ id: "a" }), status: "running" as const, revision: 3 };
  const told = withNews(before, { states: new Map([["a", state]]), progress: new Map([["a", { epoch: 9, step: 9 }]]) });
  assert.equal(told.list, before);
  assert.deepEqual(told.stale, []);
});
