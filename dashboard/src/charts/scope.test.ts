import assert from "node:assert/strict";
import { test } from "node:test";
import { newScope, pan, placeAt, report, reveal, type Scope, zoomBy, zoomTo } from "./scope.ts";

function over(...extents: (readonly [number, number])[]): Scope {
  const scope = newScope();
  for (const [i, extent] of extents.entries()) report(scope, `chart ${i}`, extent);
  return scope;
}

test("all charts have one range, from the first point of any to the last point of any", () => {
  assert.equal(newScope().range.value, null);
  assert.deepEqual(over([2, 8], [0, 5]).range.value, [0, 8]);
});

test("a newest point is in the range at once, and a chart that goes takes its part along", () => {
  const scope = over([0, 5], [0, 5]);
  report(scope, "chart 1", [0, 6]);
  assert.deepEqual(scope.range.value, [0, 6]);
  report(scope, "chart 1", null);
  assert.deepEqual(scope.range.value, [0, 5]);
});

test("who reports the same again changes nothing", () => {
  const scope = over([0, 5]);
  const before = scope.extents.value;
  report(scope, "chart 0", [0, 5]);
  report(scope, "another", null);
  assert.equal(scope.extents.value, before);
});

test("a single place has room around it", () => {
  assert.deepEqual(over([3, 3]).range.value, [2.5, 3.5]);
});

test("what is looked at does not move when points come", () => {
  const scope = over([0, 100]);
  zoomTo(scope, 20, 40);
  report(scope, "chart 0", [0, 200]);
  assert.deepEqual(scope.range.value, [20, 40]);
});

test("one looks at no more than there is: beyond is all, and that follows what comes", () => {
  const scope = over([0, 100]);
  zoomTo(scope, -50, 40);
  assert.deepEqual(scope.zoom.value, [0, 40]);
  zoomTo(scope, -50, 400);
  assert.equal(scope.zoom.value, null);
});

test("one looks at no less than can be drawn", () => {
  const scope = over([0, 100]);
  zoomTo(scope, 50, 50.00000001);
  assert.equal(scope.zoom.value, null);
});

test("zooming keeps what lies below the pointer below it", () => {
  const scope = over([0, 100]);
  zoomBy(scope, 0.5, 20);
  assert.deepEqual(scope.zoom.value, [10, 60]);
  zoomBy(scope, 2, 20);
  assert.equal(scope.zoom.value, null);
});

test("panning stays within the points and keeps the length", () => {
  const scope = over([0, 100]);
  zoomTo(scope, 40, 60);
  pan(scope, 0.5);
  assert.deepEqual(scope.zoom.value, [50, 70]);
  pan(scope, 9);
  assert.deepEqual(scope.zoom.value, [80, 100]);
  pan(scope, -99);
  assert.deepEqual(scope.zoom.value, [0, 20]);
});

test("where all is in view there is nothing to pan, and new points stay in view", () => {
  const scope = over([0, 100]);
  pan(scope, 0.5);
  assert.equal(scope.zoom.value, null);
});

test("a place out of view is brought into it, one in view moves nothing", () => {
  const scope = over([0, 100]);
  zoomTo(scope, 40, 60);
  reveal(scope, 50);
  assert.deepEqual(scope.zoom.value, [40, 60]);
  for (const x of [10, 90, 0, 100]) {
    reveal(scope, x);
    const [from, to] = scope.zoom.value as readonly [number, number];
    assert.ok(from <= x && x <= to, `${x} is in ${from} to ${to}`);
  }
});

test("a share of the axis is a place on it", () => {
  const scope = over([0, 100]);
  zoomTo(scope, 40, 60);
  assert.equal(placeAt(scope, 0.25), 45);
});
