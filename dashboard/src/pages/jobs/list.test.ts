import assert from "node:assert/strict";
import { test } from "node:test";
import { type JobList, withHead, withNews, without, withRows, withTail } from "./list.ts";
import { idsOf, jobWith, rowsOf, rowWith } from "./row.fixture.ts";

function list(ids: string, nextCursor: string | null): JobList {
  return { rows: rowsOf(ids), nextCursor };
}

test("new jobs are added on top, and loaded rows stay", () => {
  const now = withHead(list("dcba", "old"), list("fed", "new"));
  assert.equal(idsOf(now.rows), "fedcba");
  assert.equal(now.nextCursor, "old");
});

test("a first page without a known row replaces the list", () => {
  const now = withHead(list("cba", "old"), list("zyx", "new"));
  assert.equal(idsOf(now.rows), "zyx");
  assert.equal(now.nextCursor, "new");
});

test("when a row has left the first page, the rows after the page are dropped", () => {
  const now = withHead(list("fedcba", "old"), list("fdc", "new"));
  assert.equal(idsOf(now.rows), "fdc");
  assert.equal(now.nextCursor, "new");
});

test("when a row moved up, the rows after the first page are dropped only if the page ends with that row", () => {
  const now = withHead(list("abcdef", "old"), list("eab", "new"));
  assert.equal(idsOf(now.rows), "eabcdf"); // it left one gap, which closes
  assert.equal(idsOf(withHead(list("abcdef", "old"), list("abe", "new")).rows), "abe");
});

test("a first page without a next page replaces the list", () => {
  const now = withHead(list("dcba", null), list("dc", null));
  assert.equal(idsOf(now.rows), "dc");
  assert.equal(now.nextCursor, null);
});

test("when no loaded rows follow the first page, the list takes the cursor of that page", () => {
  const now = withHead(list("cb", "old"), list("cba", "new"));
  assert.equal(idsOf(now.rows), "cba");
  assert.equal(now.nextCursor, "new");
});

test("a newer version of a row replaces it, an older one does not", () => {
  const before = { rows: [rowWith({ id: "a", status: "running", revision: 5 })], nextCursor: null };
  const page = { rows: [rowWith({ id: "a", status: "queued", revision: 4 })], nextCursor: null };
  assert.equal(withHead(before, page).rows[0]?.status, "running");
  assert.equal(withRows(before, page.rows), before);
  const newer = withRows(before, [rowWith({ id: "a", status: "failed", revision: 6 })]);
  assert.equal(newer.rows[0]?.status, "failed");
});

test("a next page adds only rows that are not in the list yet", () => {
  const now = withTail(list("edc", "x"), list("cba", null));
  assert.equal(idsOf(now.rows), "edcba");
  assert.equal(now.nextCursor, null);
});

test("a row that is read again keeps its position and the cursor of its page", () => {
  const before = { rows: [rowWith({ id: "a", page: "p" }), rowWith({ id: "b", page: "p" })], nextCursor: null };
  const now = withRows(before, [rowWith({ id: "b", name: "other", page: null })]);
  assert.equal(idsOf(now.rows), "ab");
  assert.deepEqual([now.rows[1]?.name, now.rows[1]?.page], ["other", "p"]);
});

test("matching rows are removed, and the list stays the same object if no row matches", () => {
  const before = list("cba", "x");
  assert.equal(idsOf(without(before, (row) => row.id === "b").rows), "ca");
  assert.equal(
    without(before, (row) => row.id === "z"),
    before,
  );
});

test("events update rows in place, and rows with a new state are to be read again", () => {
  const before = list("ba", "x");
  const state = { ...jobWith({ id: "a" }), status: "launching" as const, revision: 2 };
  const { list: now, stale } = withNews(before, {
    states: new Map([["a", state]]),
    progress: new Map([["b", { epoch: 1, step: 7 }]]),
  });
  assert.deepEqual([now.rows[0]?.step, now.rows[1]?.status], [7, "launching"]);
  assert.equal(idsOf(stale), "a");
});

test("a state with a known revision and progress of an ended job change nothing", () => {
  const row = rowWith({ id: "a", status: "succeeded", ended_at: "2030-01-01T00:01:00Z", revision: 3 });
  const before = { rows: [row], nextCursor: null };
  const state = { ...jobWith({ id: "a" }), status: "running" as const, revision: 3 };
  const next = withNews(before, { states: new Map([["a", state]]), progress: new Map([["a", { epoch: 9, step: 9 }]]) });
  assert.equal(next.list, before);
  assert.deepEqual(next.stale, []);
});
