import assert from "node:assert/strict";
import { test } from "node:test";
import { smoothed, smoothingFrom, weightOf } from "./smoothing.ts";

/** TensorBoard's formula: a moving average, divided by the sum of its weights. */
function asTensorBoard(ys: readonly number[], weight: number): number[] {
  let sum = 0;
  return ys.map((y, i) => {
    sum = sum * weight + (1 - weight) * y;
    return sum / (1 - weight ** (i + 1));
  });
}

const steps = (count: number): number[] => Array.from({ length: count }, (_, i) => 10 * i);

function closeTo(found: ArrayLike<number>, wanted: ArrayLike<number>): void {
  assert.equal(found.length, wanted.length);
  for (let i = 0; i < wanted.length; i++) {
    assert.ok(Math.abs((found[i] as number) - (wanted[i] as number)) < 1e-9, `${i}: ${found[i]} is not ${wanted[i]}`);
  }
}

test("points at equal distances are smoothed as in TensorBoard", () => {
  const ys = Array.from({ length: 50 }, (_, i) => Math.sin(i) + i / 10);
  for (const weight of [0.1, 0.6, 0.99]) closeTo(smoothed(steps(50), ys, weight), asTensorBoard(ys, weight));
});

test("a weight of zero changes nothing, and the first value never changes", () => {
  closeTo(smoothed(steps(4), [3, 1, 4, 1], 0), [3, 1, 4, 1]);
  assert.equal(smoothed(steps(2), [7, 9], 0.99)[0], 7);
});

test("a constant series stays the same", () => {
  closeTo(smoothed(steps(9), new Array(9).fill(2.5), 0.9), new Array(9).fill(2.5));
});

test("a gap stays a gap, and the average continues across it", () => {
  const found = smoothed([0, 1, 2, 3], [4, Number.NaN, 4, 8], 0.5);
  assert.ok(Number.isNaN(found[1]));
  assert.equal(found[2], 4);
  assert.ok((found[3] as number) > 4 && (found[3] as number) < 8);
});

test("a distant earlier point weighs less than a near one", () => {
  const near = smoothed([0, 1, 2, 3, 4], [0, 0, 0, 0, 10], 0.8)[4] as number;
  const far = smoothed([0, 1, 2, 3, 40], [0, 0, 0, 0, 10], 0.8)[4] as number;
  assert.ok(far > near);
});

test("one point, no points, and points at the same position all work", () => {
  closeTo(smoothed([5], [2], 0.9), [2]);
  assert.equal(smoothed([], [], 0.9).length, 0);
  closeTo(smoothed([1, 1, 1], [2, 2, 2], 0.9), [2, 2, 2]);
});

test("a running mean is over as many points on each side, and over fewer at the ends", () => {
  const ys = [0, 5, 10, 0, 100];
  closeTo(smoothed(steps(5), ys, "mean:0.5"), [2.5, 5, 5, 110 / 3, 50]); // one on each side
  closeTo(smoothed(steps(5), ys, "mean:0.67"), [5, 3.75, 23, 28.75, 110 / 3]); // two
  closeTo(smoothed([0, 1, 2, 90, 99], ys, "mean:0.5"), [2.5, 5, 5, 110 / 3, 50]);
});

test("a Gaussian is as wide as the running mean", () => {
  const ys = new Array(201).fill(0);
  ys[100] = 1;
  const found = smoothed(steps(201), ys, "gauss:0.9"); // 9 on each side: sigma 5.196
  const density = (k: number): number => Math.exp(-(k ** 2) / 54) / Math.sqrt(54 * Math.PI);
  for (const k of [0, 1, 5, 15]) assert.ok(Math.abs((found[100 + k] as number) - density(k)) < 3e-4, String(k));
  closeTo(smoothed(steps(3), [1, 2, 4], "gauss:0.5").slice(1, 2), [
    (5 * Math.exp(-1.5) + 2) / (2 * Math.exp(-1.5) + 1),
  ]);
});

test("no kind changes anything with a weight of zero, moves a constant, or fills a gap", () => {
  for (const kind of ["mean", "gauss"] as const) {
    closeTo(smoothed(steps(4), [3, 1, 4, 1], `${kind}:0`), [3, 1, 4, 1]);
    closeTo(smoothed(steps(9), new Array(9).fill(2.5), `${kind}:0.9`), new Array(9).fill(2.5));
    const found = smoothed(steps(3), [4, Number.NaN, 4], `${kind}:0.8`);
    assert.ok(Number.isNaN(found[1]));
    assert.equal(found[2], 4);
  }
});

test("the address says the kind and the weight", () => {
  assert.equal(smoothingFrom("0.3", 0.6), 0.3);
  assert.equal(smoothingFrom("gauss:.5", 0.6), "gauss:0.5");
  assert.equal(smoothingFrom("mean:7", 0.6), "mean:0.99");
  for (const text of ["", "much", "median:0.5", "-1", "mean:"]) assert.equal(smoothingFrom(text, 0.6), 0.6);
  assert.equal(weightOf("mean:0.25"), 0.25);
  assert.equal(weightOf(0.5), 0.5);
});
