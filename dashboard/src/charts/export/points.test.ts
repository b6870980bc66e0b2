import assert from "node:assert/strict";
import { test } from "node:test";
import type { Line } from "../lines.ts";
import { pointsCsv } from "./points.ts";

const line: Line = { key: "a", name: "train", xs: [1, 2, 3], ys: [0.5, Number.NaN, 0.25], colour: "run-0" };
const linesOf = (text: string) => text.replace("\ufeff", "").trimEnd().split("\r\n");

test("only points in view with a value are written, one a row", () => {
  const other = { ...line, name: "=HYPERLINK(1)", xs: [2.5, 3, 4] };
  assert.deepEqual(linesOf(pointsCsv([line, other], [1, 3], "step")), [
    "step,line,value",
    "1,train,0.5",
    "3,train,0.25",
    "2.5,'=HYPERLINK(1),0.5",
  ]);
});

test("a mean has its spread and its count, and a smoothed line its smooth values", () => {
  const mean: Line = { ...line, smooth: [1, 2, 3], counts: [2, 2, 1], spread: { low: [0, 0, 0], high: [1, 1, 1] } };
  assert.deepEqual(linesOf(pointsCsv([mean, line], [1, 1], "epoch")), [
    "epoch,line,value,smoothed,min,max,n",
    "1,train,0.5,1,0,1,2",
    "1,train,0.5,,,,",
  ]);
  const deviating = { ...mean, spread: { low: [0, 0, 0], high: [0.75, 1, 1], isDeviation: true } };
  assert.equal(linesOf(pointsCsv([deviating], [1, 1], "epoch"))[1], "1,train,0.5,1,0.25,2");
});
