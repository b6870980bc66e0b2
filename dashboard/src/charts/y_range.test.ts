import assert from "node:assert/strict";
import { test } from "node:test";
import type { Line } from "./lines.ts";
import { yRange } from "./y_range.ts";

const line = (...ys: number[]): Line => ({ key: "a", name: "a", xs: ys.map((_, i) => i), ys, colour: "run-0" });
const ALL = [0, 10] as const;

test("a loss begins at 0 if that is near, and has no room below 0 in any case", () => {
  assert.equal(yRange([line(2.3, 0.4)], ALL, {}, false)[0], 0);
  assert.ok(yRange([line(2.31, 2.3)], ALL, {}, false)[0] > 2);
  assert.equal(yRange([line(2.3, 0.05)], ALL, {}, true)[0], 0);
  assert.ok(yRange([line(2.3, 0.9)], ALL, {}, true)[0] > 0.5);
});

test("an accuracy ends at 1, and its axis never passes 1", () => {
  const share = { isShare: true };
  assert.deepEqual(yRange([line(0.2, 0.9)], ALL, share, false), [0, 1]);
  assert.equal(yRange([line(0.985, 0.999)], ALL, share, true)[1], 0.999 + 0.014 * 0.06);
  assert.equal(yRange([line(0.9, 1)], ALL, share, true)[1], 1);
  assert.ok(yRange([line(0.1, 0.15)], ALL, share, false)[1] < 0.2);
});

test("no value is cut, whatever its name promises", () => {
  assert.ok(yRange([line(50, 97)], ALL, { isShare: true }, false)[1] > 97);
  assert.ok(yRange([line(-1, 0.5)], ALL, { isShare: true }, false)[0] < -1);
  const [from, to] = yRange([line(-3, 120)], ALL, { yFrom: 0, yTo: 100 }, false);
  assert.deepEqual([from, to], [-3, 120]);
});

test("a logarithmic axis has neither end", () => {
  const [from, to] = yRange([line(0, 0.01, 1)], ALL, { isLog: true, isShare: true }, false);
  assert.ok(from > 0 && from < 0.01 && to > 1);
});

test("without outliers, the axis has the values that a box plot has between its whiskers", () => {
  const loss = line(100, 0.5, 0.4, 0.45, 0.42, 0.41, 0.44, 0.43, 0.46);
  assert.ok(yRange([loss], ALL, { isCropped: true }, false)[1] < 0.6);
  const [from, to] = yRange([loss], ALL, { isCropped: true, isLog: true }, false);
  assert.ok(from < 0.4 && from > 0.3 && to > 0.5 && to < 0.6);
  const accuracy = line(0.1, 0.3, 0.5, 0.6, 0.7, 0.75, 0.8);
  assert.deepEqual(yRange([accuracy], ALL, { isCropped: true }, false), yRange([accuracy], ALL, {}, false));
  const still = line(1, 1, 1, 1, 9);
  assert.ok(yRange([still], ALL, { isCropped: true }, false)[1] > 9);
});

test("the ends that a person chose are kept, if the axis can have them", () => {
  assert.deepEqual(yRange([line(1, 9)], ALL, { ends: [2, 3], yFrom: 0 }, false), [2, 3]);
  assert.ok(yRange([line(1, 9)], ALL, { ends: [-2, 3], isLog: true }, false)[1] > 9);
});
