import assert from "node:assert/strict";
import { test } from "node:test";
import { idsOf, rowsOf, rowWith } from "./row.fixture.ts";
import { allToggled, current, extended, extentOf, NO_SELECTION, type Selection, toggled } from "./selection.ts";

const ROWS = rowsOf("abcdef");

function selected(ids: string): Selection {
  return new Map(rowsOf(ids).map((row) => [row.id, row]));
}

function selectedIds(selection: Selection): string {
  return idsOf(selection.values());
}

test("a row is selected, and with the next click it is not", () => {
  const one = toggled(NO_SELECTION, rowWith({ id: "a" }));
  assert.equal(selectedIds(one), "a");
  assert.equal(selectedIds(toggled(one, rowWith({ id: "a" }))), "");
});

test("a range goes both ways, and takes away what it was begun on to take away", () => {
  assert.equal(selectedIds(extended(selected("b"), ROWS, "b", rowWith({ id: "d" }))), "bcd");
  assert.equal(selectedIds(extended(selected("e"), ROWS, "e", rowWith({ id: "c" }))), "ecd");
  assert.equal(selectedIds(extended(selected("bcde"), ROWS, "b", rowWith({ id: "d" }))), "e");
});

test("a range from a row that is not shown is the one row", () => {
  assert.equal(selectedIds(extended(selected("z"), ROWS, "z", rowWith({ id: "c" }))), "zc");
  assert.equal(selectedIds(extended(NO_SELECTION, ROWS, null, rowWith({ id: "c" }))), "c");
});

test("all that are shown are selected together, and those that are not shown stay as they were", () => {
  const all = allToggled(selected("zb"), ROWS);
  assert.equal(selectedIds(all), "zbacdef");
  assert.equal(selectedIds(allToggled(all, ROWS)), "z");
});

test("the extent of a selection is all, some or none of what is shown", () => {
  assert.equal(extentOf(NO_SELECTION, ROWS), "none");
  assert.equal(extentOf(selected("c"), ROWS), "some");
  assert.equal(extentOf(selected("z"), ROWS), "some");
  assert.equal(extentOf(selected("abcdef"), ROWS), "all");
});

test("what is selected is as it is by now, and as it was where it is not shown", () => {
  const now = current(selected("za"), [rowWith({ id: "a", status: "failed" }), rowWith({ id: "b" })]);
  assert.deepEqual(
    now.map(({ id, status }) => [id, status]),
    [
      ["z", "queued"],
      ["a", "failed"],
    ],
  );
});
