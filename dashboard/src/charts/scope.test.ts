import assert from "node:assert/strict";
import { test } from "node:test";
import { newScope, pan, placeAt, report, reveal, type Scope, zoomBy, zoomTo } from "./scope.ts";

function scopeOver(...extents: (readonly [number, number])[]): Scope {
  const scope = newScope();
  for (const [i, extent] of extents.entries()) report(scope, `chart ${i}`, extent);
  return scope;
}

test("all charts share one range, which covers the points of every chart", () => {
  assert.equal(newScope().range.value, null);
  assert.deepEqual(scopeOver([2, 8], [0, 5]).range.value, [0, 8]);
});

test("a new point extends the range at once, and a removed chart no longer counts", () => {
  const scope = scopeOver([0, 5], [0, 5]);
  report(scope, "chart 1", [0, 6]);
  assert.deepEqual(scope.range.value, [0, 6]);
  report(scope, "chart 1", null);
  assert.deepEqual(scope.range.value, [0, 5]);
});

test("reporting the same extent again changes nothing", () => {
  const scope = scopeOver([0, 5]);
  const before = scope.extents.value;
  report(scope, "chart 0", [0, 5]);
  report(scope, "another", null);
  assert.equal(scope.extents.value, before);
});

test("a single point has room around it", () => {
  assert.deepEqual(scopeOver([3, 3]).range.value, [2.5, 3.5]);
});

test("a zoomed range does not move when new points come", () => {
  const scope = scopeOver([0, 100]);
  zoomTo(scope, 20, 40);
  report(scope, "chart 0", [0, 200]);
  assert.deepEqual(scope.range.value, [20, 40]);
});

test("zooming stops at the ends of the points, and past both ends it shows everything", () => {
  const scope = scopeOver([0, 100]);
  zoomTo(scope, -50, 40);
  assert.deepEqual(scope.zoom.value, [0, 40]);
  zoomTo(scope, -50, 400);
  assert.equal(scope.zoom.value, null);
});

test("a zoom too small to be drawn is ignored", () => {
  const scope = scopeOver([0, 100]);
  zoomTo(scope, 50, 50.00000001);
  assert.equal(scope.zoom.value, null);
});

test("zooming keeps the position under the pointer where it is", () => {
  const scope = scopeOver([0, 100]);
  zoomBy(scope, 0.5, 20);
  assert.deepEqual(scope.zoom.value, [10, 60]);
  zoomBy(scope, 2, 20);
  assert.equal(scope.zoom.value, null);
});

test("panning stays within the points and keeps the length of the range", () => {
  const scope = scopeOver([0, 100]);
  zoomTo(scope, 40, 60);
  pan(scope, 0.5);
  assert.deepEqual(scope.zoom.value, [50, 70]);
  pan(scope, 9);
  assert.deepEqual(scope.zoom.value, [80, 100]);
  pan(scope, -99);
  assert.deepEqual(scope.zoom.value, [0, 20]);
});

test("panning does nothing when everything is in view", () => {
  const scope = scopeOver([0, 100]);
  pan(scope, 0.5);
  assert.equal(scope.zoom.value, null);
});

test("a position out of view is panned into view, one in view moves nothing", () => {
  const scope = scopeOver([0, 100]);
  zoomTo(scope, 40, 60);
  reveal(scope, 50);
  assert.deepEqual(scope.zoom.value, [40, 60]);
  for (const x of [10, 90, 0, 100]) {
    reveal(scope, x);
    const [from, to] = scope.zoom.value as readonly [number, number];
    assert.ok(from <= x && x <= to, `${x} is in ${from} to ${to}`);
  }
});

test("a share of the width gives a position in the range in view", () => {
  const scope = scopeOver([0, 100]);
  zoomTo(scope, 40, 60);
  assert.equal(placeAt(scope, 0.25), 45);
});
