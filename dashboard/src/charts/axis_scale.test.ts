import assert from "node:assert/strict";
import { test } from "node:test";
import { axisScale, wantsLog } from "./axis_scale.ts";

const ENDS = [10, 210] as const;

test("the greatest number is on top, and the least at the bottom", () => {
  const axis = axisScale([1, 3, 2], false, ENDS);
  assert.equal(axis.at(3), 10);
  assert.equal(axis.at(1), 210);
  assert.equal(axis.at(2), 110);
  assert.equal(axis.at(null), null);
});

test("on a log axis equal ratios have equal distances", () => {
  const axis = axisScale([1, 100], true, ENDS);
  assert.equal(axis.kind, "log");
  assert.ok(Math.abs((axis.at(10) ?? 0) - 110) < 1e-9);
});

test("an axis that contains zero stays linear, even if a log axis is asked for", () => {
  assert.equal(axisScale([0, 100], true, ENDS).kind, "linear");
});

test("a log axis is the default for wide ranges and for steady ratios", () => {
  assert.equal(wantsLog([1e-4, 1e-1]), true);
  assert.equal(wantsLog([32, 64, 128]), true);
  assert.equal(wantsLog([32, 128]), false);
  assert.equal(wantsLog([1, 2, 3]), false);
  assert.equal(wantsLog([0, 1000]), false);
  assert.equal(wantsLog(["mlp", "lenet5"]), false);
  assert.equal(wantsLog([5, null]), false);
});

test("a single value lies in the middle of the axis", () => {
  for (const value of [8, 0]) {
    const place = axisScale([value, value], false, ENDS).at(value);
    assert.ok(Math.abs((place ?? 0) - 110) < 1e-9, String(place));
  }
});

test("positions convert to a brush and back, whichever way the brush is drawn", () => {
  const axis = axisScale([0, 100], false, ENDS);
  const brush = axis.between(60, 160);
  assert.deepEqual(brush, { from: 25, to: 75 });
  assert.deepEqual(axis.between(160, 60), brush);
  assert.deepEqual(axis.stretch({ from: 25, to: 75 }), [60, 160]);
});

test("a brush beyond the end of the axis stops at the end", () => {
  const axis = axisScale([0, 100], false, ENDS);
  assert.deepEqual(axis.between(-500, 110), { from: 50, to: 100 });
});

test("a brush on an axis of texts selects the texts near it", () => {
  const axis = axisScale(["b", "a", null, "c"], false, ENDS);
  assert.equal(axis.kind, "text");
  const [a, c] = [axis.at("a") as number, axis.at("c") as number];
  assert.deepEqual(axis.between(a, a), { texts: ["a"] });
  assert.deepEqual(axis.between(c, a), { texts: ["a", "b", "c"] });
  assert.equal(axis.between((a + (axis.at("b") as number)) / 2, (a + (axis.at("b") as number)) / 2), null);
  assert.equal(axis.stretch({ texts: ["gone"] }), null);
  assert.equal(axis.at(null), null);
});

test("each of a few values has a tick, and ticks do not overlap", () => {
  assert.deepEqual(
    axisScale([32, 64, 128], true, ENDS).ticks.map(({ text }) => text),
    ["32", "64", "128"],
  );
  assert.deepEqual(
    axisScale([1, 2, 3, 4, 5, 6, 7, 8, 90], true, ENDS).ticks.map(({ text }) => text),
    ["1", "2", "5", "10", "20", "50"],
  );
  const places = axisScale([1, 1.001, 50, 100], false, ENDS).ticks.map(({ y }) => y);
  assert.equal(places.length, 3);
});

test("a flipped axis has its least value on top, and its ranges are the same", () => {
  const axis = axisScale([0, 100], false, [210, 10]);
  assert.deepEqual([axis.at(0), axis.at(100)], [10, 210]);
  assert.deepEqual(axis.between(160, 60), { from: 25, to: 75 });
  assert.deepEqual(axis.stretch({ from: 25, to: 75 }), [60, 160]);
  assert.deepEqual(axis.between(-500, 110), { from: 0, to: 50 });
});
