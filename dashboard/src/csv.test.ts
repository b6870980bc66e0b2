import assert from "node:assert/strict";
import { test } from "node:test";
import { csvLine, csvRows } from "./csv.ts";

test("rows are read as they were written", () => {
  const rows = [
    ["epoch", "note"],
    ["1", 'a "good", long\nnote'],
    ["", ""],
    ["3", ""],
  ];
  assert.deepEqual(csvRows(rows.map(csvLine).join("")), rows);
  assert.deepEqual(csvRows('a,b\n"1"x,2\n'), [
    ["a", "b"],
    ['"1"x', "2"],
  ]);
  assert.deepEqual(csvRows(""), [[""]]);
});
