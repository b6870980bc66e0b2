import assert from "node:assert/strict";
import { test } from "node:test";
import { finder } from "./find.ts";

test("letters and regular expressions find a name, in upper or lower case", () => {
  const names = ["train/loss", "val/loss", "Lr (mean)"];
  const found = (text: string): string[] => names.filter(finder(text));
  assert.deepEqual(found("LOSS"), ["train/loss", "val/loss"]);
  assert.deepEqual(found("^val|lr"), ["val/loss", "Lr (mean)"]);
  assert.deepEqual(found("(mean)"), ["Lr (mean)"]);
  assert.deepEqual(found("lr ("), ["Lr (mean)"]); // not a regular expression yet
  assert.deepEqual(found(" "), names);
});
