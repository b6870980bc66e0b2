import assert from "node:assert/strict";
import { test } from "node:test";
import { indexNearest, indexUpTo, inView, type Line, padded, valueAt, xExtent, yExtent } from "./lines.ts";

function line(xs: number[], ys: number[]): Line {
  return { key: "k", name: "n", colour: "run-0", xs, ys };
}

test("the index up to a place is found, also between points and outside of them", () => {
  assert.deepEqual(
    [0, 1, 2, 5, 9].map((x) => indexUpTo([1, 3, 3, 5], x)),
    [-1, 0, 0, 3, 3],
  );
});

test("the nearest index is found, and of two as near the one before", () => {
  assert.deepEqual(
    [-9, 1.9, 2, 2.1, 99].map((x) => indexNearest([1, 3, 5], x)),
    [0, 0, 0, 1, 2],
  );
  assert.equal(indexNearest([], 1), -1);
});

test("in view are the points of a range and one more on each side, so that lines run to its ends", () => {
  assert.deepEqual(inView([0, 1, 2, 3, 4, 5], [2, 3]), [2, 5]);
  assert.deepEqual(inView([0, 1, 2, 3, 4, 5], [1.5, 3.5]), [1, 5]);
  assert.deepEqual(inView([0, 1], [-5, 9]), [0, 2]);
});

test("lines reach from the first place of any to the last of any; without points nowhere", () => {
  assert.deepEqual(xExtent([line([2, 4], [0, 0]), line([], []), line([1, 3], [0, 0])]), [1, 4]);
  assert.equal(xExtent([line([], [])]), null);
});

test("values reach over what is in the range, ends included, and not over gaps and infinities", () => {
  const one = line([0, 1, 2, 3, 4], [100, 1, Number.NaN, 3, -100]);
  assert.deepEqual(yExtent([one], [1, 3]), [1, 3]);
  assert.deepEqual(yExtent([line([1, 2], [5, Number.POSITIVE_INFINITY])], [1, 2]), [5, 5]);
  assert.equal(yExtent([line([1], [Number.NaN])], [0, 2]), null);
});

test("between two points the line that passes by counts", () => {
  assert.deepEqual(yExtent([line([0, 10], [2, 4])], [4, 5]), [2, 4]);
});

test("a log scale has room for what is above zero only", () => {
  assert.deepEqual(yExtent([line([0, 1, 2], [0, -1, 0.5])], [0, 2], 0), [0.5, 0.5]);
});

test("a range is padded on both sides, also that of a single value", () => {
  const [least, greatest] = padded([10, 20], false);
  assert.ok(least < 10 && least > 9 && greatest > 20 && greatest < 21);
  const [below, above] = padded([0, 0], false);
  assert.ok(below < 0 && above > 0);
  const [low, high] = padded([0.001, 0.001], true);
  assert.ok(low > 0 && low < 0.001 && high > 0.001);
});

test("a legend has the value nearest to the cursor, gaps included, and without a cursor the newest known one", () => {
  const one = line([0, 10, 20, 30], [1, Number.NaN, 3, Number.NaN]);
  assert.equal(valueAt(one, 14), Number.NaN);
  assert.equal(valueAt(one, 16), 3);
  assert.equal(valueAt(one, null), 3);
  assert.equal(valueAt(line([], []), null), Number.NaN);
  assert.equal(valueAt(line([], []), 5), Number.NaN);
});
