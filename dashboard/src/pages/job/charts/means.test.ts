import assert from "node:assert/strict";
import { test } from "node:test";
import { meanOf, shareOf, smoothOf, withoutBias } from "./means.ts";
import type { Band, Points } from "./points.ts";

function points(xs: number[], ys: number[], bands: Band[] = []): Points {
  return { xs, ys, bands };
}

function closeTo(found: number | undefined, wanted: number, within = 1e-9): void {
  assert.ok(found !== undefined && Math.abs(found - wanted) <= within, `${found} is not ${wanted}`);
}

/** A series of ones with spikes, thinned as the api does it: it keeps all the spikes and a few of the ones. */
function thinned(): { series: Points; mean: number } {
  const steps = Array.from({ length: 10_000 }, (_, i) => i);
  const valueAt = (step: number): number => (step % 100 === 50 ? 101 : 1);
  const xs = steps.filter((step) => step % 100 === 50 || step % 500 === 0);
  const bands = Array.from({ length: 100 }, (_, i) => ({ x_from: i * 100, x_to: i * 100 + 99, count: 100, mean: 2 }));
  return { series: points(xs, xs.map(valueAt), bands), mean: 2 };
}

test("in a thinned band, the band's mean replaces its points, in the middle of the band", () => {
  const bands = [
    { x_from: 0, x_to: 9, count: 10, mean: 2 },
    { x_from: 10, x_to: 11, count: 2, mean: 7 },
  ];
  assert.deepEqual(withoutBias(points([0, 5, 10, 11], [1, 50, 6, 8], bands)), { xs: [4.5, 10, 11], ys: [2, 6, 8] });
});

test("a complete band keeps its own points", () => {
  const bands = [{ x_from: 0, x_to: 2, count: 2, mean: 2 }];
  assert.deepEqual(withoutBias(points([0, 1, 2], [1, Number.NaN, 3], bands)).xs, [0, 1, 2]);
});

test("the smooth line of a thinned series is not biased to its spikes", () => {
  const { series, mean } = thinned();
  const smooth = smoothOf(series, 0.9);
  assert.equal(smooth.length, series.xs.length);
  for (const y of smooth) closeTo(y, mean);
});

test("the smooth line reaches the newest point and keeps the gaps of its series", () => {
  const smooth = smoothOf(points([0, 1, 2, 3], [1, Number.NaN, 1, 1]), 0.6);
  assert.deepEqual(smooth, [1, Number.NaN, 1, 1]);
  assert.deepEqual(smoothOf(points([], []), 0.6), []);
});

test("the mean of the ranks is taken at each position", () => {
  const found = meanOf([points([1, 2, 3], [1, 2, 3]), points([1, 2, 3], [3, 4, 5])], 300);
  assert.deepEqual(found.xs, [1, 2, 3]);
  assert.deepEqual(found.ys, [2, 3, 4]);
});

test("every rank weighs the same in the mean, however many points or spikes it has", () => {
  const { series, mean } = thinned();
  const flat = points([0, 9999], [4, 4], [{ x_from: 0, x_to: 9999, count: 10_000, mean: 4 }]);
  const ys = meanOf([series, flat], 1).ys;
  assert.equal(ys.length, 1);
  closeTo(ys[0], (mean + 4) / 2);
});

test("a rank without a value at a position is left out of the mean there", () => {
  assert.deepEqual(meanOf([points([1, 2], [1, Number.NaN]), points([1, 2], [3, 5])], 10).ys, [2, 5]);
  assert.deepEqual(meanOf([points([], [])], 10).xs, []);
});

test("a share is computed only at steps that both series have", () => {
  const found = shareOf(points([1, 3, 4], [1, 3, 4]), points([1, 2, 4], [2, 2, 0]));
  assert.deepEqual(found.xs, [1, 4]);
  assert.equal(found.ys[0], 0.5);
  assert.ok(Number.isNaN(found.ys[1]), "the share is unknown where the whole is zero");
});

test("with bands, the share is computed from the means of the bands", () => {
  const bands = (mean: number): Band[] => [{ x_from: 0, x_to: 10, count: 11, mean }];
  assert.deepEqual(shareOf(points([3], [9], bands(1)), points([7], [10], bands(4))), points([5], [0.25]));
});
