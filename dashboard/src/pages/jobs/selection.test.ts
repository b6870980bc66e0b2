import assert from "node:assert/strict";
import { test } from "node:test";
import { idsOf, rowsOf, rowWith } from "./row.fixture.ts";
import {
  allToggled,
  current,
  extended,
  extentOf,
  NO_SELECTION,
  type Selection,
  toggled,
  without,
} from "./selection.ts";

const ROWS = rowsOf("abcdef");

function selected(ids: string): Selection {
  return new Map(rowsOf(ids).map((row) => [row.id, row]));
}

function selectedIds(selection: Selection): string {
  return idsOf(selection.values());
}

test("a toggle selects a row, and the next toggle deselects it", () => {
  const one = toggled(NO_SELECTION, rowWith({ id: "a" }));
  assert.equal(selectedIds(one), "a");
  assert.equal(selectedIds(toggled(one, rowWith({ id: "a" }))), "");
});

test("a range goes up or down, and is deselected if the clicked row was selected", () => {
  assert.equal(selectedIds(extended(selected("b"), ROWS, "b", rowWith({ id: "d" }))), "bcd");
  assert.equal(selectedIds(extended(selected("e"), ROWS, "e", rowWith({ id: "c" }))), "ecd");
  assert.equal(selectedIds(extended(selected("bcde"), ROWS, "b", rowWith({ id: "d" }))), "e");
});

test("without a shown anchor, a range is the clicked row alone", () => {
  assert.equal(selectedIds(extended(selected("z"), ROWS, "z", rowWith({ id: "c" }))), "zc");
  assert.equal(selectedIds(extended(NO_SELECTION, ROWS, null, rowWith({ id: "c" }))), "c");
});

test("all shown rows are selected or deselected together, and other rows stay as they were", () => {
  const all = allToggled(selected("zb"), ROWS);
  assert.equal(selectedIds(all), "zbacdef");
  assert.equal(selectedIds(allToggled(all, ROWS)), "z");
});

test("the extent is all, some or none of the rows, and some if the selected row is not shown", () => {
  assert.equal(extentOf(NO_SELECTION, ROWS), "none");
  assert.equal(extentOf(selected("c"), ROWS), "some");
  assert.equal(extentOf(selected("z"), ROWS), "some");
  assert.equal(extentOf(selected("abcdef"), ROWS), "all");
});

test("jobs that are gone leave the selection, and the others stay", () => {
  assert.equal(selectedIds(without(selected("abc"), new Set("bz"))), "ac");
});

test("a selected row has its current state if it is shown, else its state when it was selected", () => {
  const now = current(selected("za"), [rowWith({ id: "a", status: "failed" }), rowWith({ id: "b" })]);
  assert.deepEqual(
    now.map(({ id, status }) => [id, status]),
    [
      ["z", "queued"],
      ["a", "failed"],
    ],
  );
});
