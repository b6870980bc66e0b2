import assert from "node:assert/strict";
import { test } from "node:test";
import { curveOf } from "./curve.ts";
import { formulaOf } from "./formula.ts";

const PARTS: Readonly<Record<string, number | { xs: number[]; ys: number[] }>> = {
  loss: { xs: [1, 2, 3, 4, 5], ys: [8, 4, 2, Number.NaN, 0] },
  val: { xs: [2, 4, 5, 6], ys: [5, 3, 1, 1] },
  gpus: 2,
};

const curve = (text: string) => curveOf(formulaOf(text), (name) => PARTS[name]);

test("values are at the places of the metric with the fewest points, with gaps where one has none", () => {
  assert.deepEqual(curve("loss - val"), { xs: [2, 4, 5, 6], ys: [-1, Number.NaN, -1, Number.NaN] });
});

test("a metric has the value between its points, but not across a gap", () => {
  const parts = { a: { xs: [0, 10, 20, 30], ys: [0, 1, Number.NaN, 3] }, b: { xs: [5, 15, 30], ys: [1, 1, 1] } };
  const found = curveOf(formulaOf("a + b"), (name) => parts[name as "a" | "b"]);
  assert.deepEqual(found?.ys, [1.5, Number.NaN, 4]);
});

test("what is infinite is a gap", () => {
  assert.deepEqual(curve("gpus / loss")?.ys, [0.25, 0.5, 1, Number.NaN, Number.NaN]);
  assert.deepEqual(curve("log10(val - 1)")?.ys, [Math.log10(4), Math.log10(2), Number.NaN, Number.NaN]);
});

test("without the points of a metric there is no curve, without any metric there are no points", () => {
  assert.equal(curve("loss - mae"), undefined);
  assert.deepEqual(curve("gpus * 2"), { xs: [], ys: [] });
});
