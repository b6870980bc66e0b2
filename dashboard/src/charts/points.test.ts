import assert from "node:assert/strict";
import { test } from "node:test";
import { reachOf, valueAxis } from "./points.ts";

const one = (value: number) => ({ value, low: null, high: null });

test("the reach covers the intervals and is never negative", () => {
  assert.deepEqual(reachOf([{ value: 10, low: -3, high: 14 }, one(5)]), [0, 14]);
  assert.deepEqual(reachOf([]), [0, 1]);
});

test("a very wide interval is cut at twice the greatest figure", () => {
  assert.deepEqual(reachOf([{ value: 10, low: 0, high: 900 }, one(8)]), [0, 20]);
});

test("an axis of bars starts at zero, an axis of points near the least value", () => {
  assert.equal(valueAxis([90, 100], { isFromZero: true }, [200, 0], String).at(0), 200);
  const points = valueAxis([90, 100], { isFromZero: false }, [200, 0], String);
  assert.ok(points.ticks.every(({ text }) => Number(text) >= 80));
});

test("an axis of shares ends at one, and a greater value is drawn at the end", () => {
  const axis = valueAxis([0.9, 1.2], { isFromZero: false, maximum: 1 }, [200, 0], String);
  assert.equal(axis.ticks.at(-1)?.text, "1");
  assert.equal(axis.at(1.2), 0);
});

test("ticks that are close have as many digits as they need to differ", () => {
  const twoDigits = (value: number): string => String(Number(value.toPrecision(2)));
  const textsOf = (reach: readonly [number, number]): string[] =>
    valueAxis(reach, { isFromZero: false }, [0, 200], twoDigits).ticks.map(({ text }) => text);
  assert.deepEqual(textsOf([0.0024, 0.0025]).slice(0, 2), ["0.00238", "0.00240"]);
  assert.deepEqual(textsOf([1, 5]), ["0", "1", "2", "3", "4", "5", "6"]);
});

test("equal figures still get an axis with ticks", () => {
  for (const value of [0, 5]) {
    const { at, ticks } = valueAxis([value, value], { isFromZero: false }, [200, 0], String);
    assert.ok(Number.isFinite(at(value)));
    assert.ok(ticks.length > 1);
  }
});

test("an axis of bars has zero on it, also where all values are negative", () => {
  const places = ([least, greatest]: [number, number]) => {
    const { at } = valueAxis([least, greatest], { isFromZero: true }, [0, 100], String);
    return [at(least), at(0), at(greatest)];
  };
  const [from, zero, to] = places([-2, 2]).map(Math.round);
  assert.deepEqual([from, zero, to], [17, 50, 83]);
  assert.equal(places([-3, -1])[1], 100);
  assert.equal(places([0, 0])[1], 0);
});
