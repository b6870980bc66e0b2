import assert from "node:assert/strict";
import { test } from "node:test";
import { cursorKeys } from "./keys.ts";
import type { Line } from "./lines.ts";
import { newScope, report, type Scope, zoomTo } from "./scope.ts";

const SHORT: Line = { key: "a", name: "a", colour: "run-0", xs: [0, 100], ys: [1, 2] };
const LONG: Line = { ...SHORT, key: "b", xs: [0, 10, 10, 10, 20, 100], ys: [1, 2, 3, 4, 5, 6] };

function scopeOfAll(): Scope {
  const scope = newScope();
  report(scope, "chart", [0, 100]);
  return scope;
}

function press(scope: Scope, key: string, more: Partial<KeyboardEvent> = {}): number | null | undefined {
  return cursorKeys({ key, ...more } as KeyboardEvent, scope, [SHORT, LONG]);
}

test("arrow keys step through the line with the most points, starting at its newest", () => {
  const scope = scopeOfAll();
  const places = ["ArrowLeft", "ArrowLeft", "ArrowLeft", "ArrowLeft", "ArrowLeft", "ArrowRight", "ArrowRight"];
  assert.deepEqual(
    places.map((key) => press(scope, key)),
    [100, 20, 10, 0, 0, 10, 20],
  );
});

test("when zoomed in, the view follows the cursor", () => {
  const scope = scopeOfAll();
  zoomTo(scope, 15, 40);
  scope.cursor.value = 20;
  assert.equal(press(scope, "ArrowLeft"), 10);
  const [from, to] = scope.zoom.value as readonly [number, number];
  assert.ok(from <= 10 && to - from === 25);
});

test("plus and minus zoom around the cursor, Escape shows all", () => {
  const scope = scopeOfAll();
  scope.cursor.value = 20;
  press(scope, "+");
  assert.deepEqual(scope.zoom.value, [10, 60]);
  press(scope, "-");
  assert.equal(scope.zoom.value, null);
  press(scope, "+");
  assert.equal(press(scope, "Escape"), null);
  assert.equal(scope.zoom.value, null);
});

test("keys that charts do not use are left to the browser and the page", () => {
  const scope = scopeOfAll();
  assert.equal(press(scope, "ArrowLeft", { ctrlKey: true }), undefined);
  assert.equal(press(scope, "Tab"), undefined);
  assert.equal(press(newScope(), "ArrowLeft"), undefined);
});
