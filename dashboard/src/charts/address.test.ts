import assert from "node:assert/strict";
import { test } from "node:test";
import { cutsFrom, cutsText, rangeFrom, textsOf } from "./address.ts";

test("a range is written with the digits that a chart shows, and read from its two ends", () => {
  assert.deepEqual(textsOf([1234.5678, 5678.1234]), ["1235", "5678"]);
  assert.deepEqual(textsOf([0.123456, 0.125456]), ["0.123456", "0.125456"]);
  assert.deepEqual(textsOf(null), [null, null]);
  assert.deepEqual(rangeFrom("0.5", "2"), [0.5, 2]);
});

test("an incomplete, reversed or invalid range is ignored", () => {
  for (const [from, to] of [
    ["", "2"],
    ["1", ""],
    ["3", "2"],
    ["x", "2"],
  ] as const)
    assert.equal(rangeFrom(from, to), null);
});

test("the ranges of y axes read back as they were written, and an invalid one is left out", () => {
  const cuts = new Map([
    ["loss", [0.1, 0.5]],
    ["val-loss", [-1, 2]],
  ] as const);
  assert.equal(cutsText(cuts), "loss:0.1:0.5,val-loss:-1:2");
  assert.deepEqual([...cutsFrom(`${cutsText(cuts)},mae:2:1,mape`)], [...cuts]);
  assert.equal(cutsFrom("").size, 0);
});
