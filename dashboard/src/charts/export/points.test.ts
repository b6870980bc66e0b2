import assert from "node:assert/strict";
import { test } from "node:test";
import { inLogX, type Line } from "../lines.ts";
import { pointsCsv } from "./points.ts";

const line: Line = { key: "a", name: "train", xs: [1, 2, 3], ys: [0.5, Number.NaN, 0.25], colour: "run-0" };
const view = { range: [1, 1], xName: "epoch", isLogX: false } as const;
const linesOf = (text: string) => text.replace("\ufeff", "").trimEnd().split("\r\n");

test("only points in view with a value are written, one a row", () => {
  const other = { ...line, name: "=HYPERLINK(1)", xs: [2.5, 3, 4] };
  assert.deepEqual(linesOf(pointsCsv({ ...view, lines: [line, other], range: [1, 3], xName: "step" })), [
    "step,line,value",
    "1,train,0.5",
    "3,train,0.25",
    "2.5,'=HYPERLINK(1),0.5",
  ]);
});

test("a mean has its spread and its count, and a smoothed line its smooth values", () => {
  const mean: Line = { ...line, smooth: [1, 2, 3], counts: [2, 2, 1], spread: { low: [0, 0, 0], high: [1, 1, 1] } };
  assert.deepEqual(linesOf(pointsCsv({ ...view, lines: [mean, line] })), [
    "epoch,line,value,smoothed,min,max,n",
    "1,train,0.5,1,0,1,2",
    "1,train,0.5,,,,",
  ]);
  const deviating = { ...mean, spread: { low: [0, 0, 0], high: [0.75, 1, 1], isDeviation: true } };
  assert.equal(linesOf(pointsCsv({ ...view, lines: [deviating] }))[1], "1,train,0.5,1,0.25,2");
  const named = { ...deviating, spread: { ...deviating.spread, names: ["std error"] } };
  assert.equal(linesOf(pointsCsv({ ...view, lines: [named] }))[0], "epoch,line,value,smoothed,std error,n");
});

test("of a logarithmic axis the values are written, not their powers", () => {
  const drawn = inLogX({ ...line, xs: [0, 1, 1000], ys: [9, 0.5, 0.25] });
  assert.deepEqual(linesOf(pointsCsv({ ...view, lines: [drawn], range: [0, 3], isLogX: true })), [
    "epoch,line,value",
    "1,train,0.5",
    "1000,train,0.25",
  ]);
});
