import assert from "node:assert/strict";
import { test } from "node:test";
import {
  constantOf,
  indexAt,
  indexNearest,
  indexUpTo,
  inView,
  type Line,
  padded,
  pointText,
  xExtent,
  yExtent,
} from "./lines.ts";

function line(xs: number[], ys: number[]): Line {
  return { key: "k", name: "n", colour: "run-0", xs, ys };
}

test("the last point at or before a position is found, or -1 if there is none", () => {
  assert.deepEqual(
    [0, 1, 2, 5, 9].map((x) => indexUpTo([1, 3, 3, 5], x)),
    [-1, 0, 0, 3, 3],
  );
});

test("the nearest point is found, and the earlier of two equally near ones", () => {
  assert.deepEqual(
    [-9, 1.9, 2, 2.1, 99].map((x) => indexNearest([1, 3, 5], x)),
    [0, 0, 0, 1, 2],
  );
  assert.equal(indexNearest([], 1), -1);
});

test("the view includes the neighbours that a line needs to reach both ends of the range", () => {
  assert.deepEqual(inView([0, 1, 2, 3, 4, 5], [2, 3]), [2, 5]);
  assert.deepEqual(inView([0, 1, 2, 3, 4, 5], [1.5, 3.5]), [1, 5]);
  assert.deepEqual(inView([0, 1], [-5, 9]), [0, 2]);
});

test("the x extent covers all lines, and is null without points", () => {
  assert.deepEqual(xExtent([line([2, 4], [0, 0]), line([], []), line([1, 3], [0, 0])]), [1, 4]);
  assert.equal(xExtent([line([], [])]), null);
});

test("the y extent covers the spread of the lines", () => {
  const spreading = { ...line([0, 1, 2], [5, 6, 7]), spread: { low: [4, 3, Number.NaN], high: [6, 9, 99] } };
  assert.deepEqual(yExtent([spreading], [0, 1]), [3, 9]);
});

test("the y extent covers the points in the range, and skips gaps and infinities", () => {
  const one = line([0, 1, 2, 3, 4], [100, 1, Number.NaN, 3, -100]);
  assert.deepEqual(yExtent([one], [1, 3]), [1, 3]);
  assert.deepEqual(yExtent([line([1, 2], [5, Number.POSITIVE_INFINITY])], [1, 2]), [5, 5]);
  assert.equal(yExtent([line([1], [Number.NaN])], [0, 2]), null);
});

test("without a point in the range, the line that passes through it sets the y extent", () => {
  assert.deepEqual(yExtent([line([0, 10], [2, 4])], [4, 5]), [2, 4]);
});

test("on a log scale the y extent skips values that are not above zero", () => {
  assert.deepEqual(yExtent([line([0, 1, 2], [0, -1, 0.5])], [0, 2], 0), [0.5, 0.5]);
});

test("a range gets a margin on both sides, also the range of a single value", () => {
  const [least, greatest] = padded([10, 20], false);
  assert.ok(least < 10 && least > 9 && greatest > 20 && greatest < 21);
  const [below, above] = padded([0, 0], false);
  assert.ok(below < 0 && above > 0);
  const [low, high] = padded([0.001, 0.001], true);
  assert.ok(low > 0 && low < 0.001 && high > 0.001);
});

test("a legend shows the value nearest to the cursor, or without a cursor the last one in view", () => {
  const one = line([0, 10, 20, 30], [1, Number.NaN, 3, Number.NaN]);
  const shown = (place: number | null, range: [number, number] | null = null) => one.ys[indexAt(one, place, range)];
  assert.equal(shown(14), Number.NaN);
  assert.equal(shown(16), 3);
  assert.equal(shown(null), 3);
  assert.equal(shown(null, [0, 30]), 3);
  assert.equal(shown(null, [0, 12]), 1);
  assert.equal(indexAt(line([], []), null, null), -1);
  assert.equal(indexAt(line([], []), 5, null), -1);
});

test("the value of a mean is followed by its spread and its count", () => {
  const of = (isDeviation: boolean) => ({ low: [0, Number.NaN], high: [4, Number.NaN], isDeviation });
  const mean = { ...line([0, 1], [2, 3]), counts: [5, 1] };
  assert.equal(pointText({ ...mean, spread: of(false) }, 0, String), "2 (0 to 4), n 5");
  assert.equal(pointText({ ...mean, spread: of(true) }, 0, String), "2 ± 2, n 5");
  assert.equal(pointText({ ...mean, spread: of(true) }, 1, String), "3, n 1");
  assert.equal(pointText(line([0], [2]), 0, String), "2");
  assert.equal(pointText(line([], []), -1, String), "NaN");
});

test("lines are constant if all of their points have one value, and enough points say so", () => {
  const of = (...ys: number[]) => line([...ys.keys()], ys);
  assert.deepEqual(constantOf([of(0.1, 0.1), of(0.1, Number.NaN)]), { value: 0.1, count: 3 });
  assert.equal(constantOf([of(0.1, 0.1, 0.1), of(0.2)]), null);
  assert.equal(constantOf([of(0.1, 0.1)]), null);
  assert.equal(constantOf([of(0.1, 0.1, 0.1, Number.POSITIVE_INFINITY)]), null);
  assert.equal(constantOf([]), null);
});
