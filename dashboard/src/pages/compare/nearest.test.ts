import assert from "node:assert/strict";
import { test } from "node:test";
import type { Line } from "../../charts/lines.ts";
import { nearestLine, type Place } from "./nearest.ts";

const line = (key: string, ys: readonly number[]): Line => ({ key, name: key, xs: [0, 10], ys, colour: "run-0" });
const LINES = [line("low", [0, 0]), line("high", [100, 100]), line("rising", [0, 100])];

// The chart is 106 px high and has a margin of 6 % above, so one pixel is one unit.
const at = (x: number, value: number): Place => ({ x, top: 106 - value, height: 106, range: [0, 10], isZoomed: true });

test("the nearest line is found, also between its points", () => {
  assert.equal(nearestLine(LINES, at(5, 4), {}), "low");
  assert.equal(nearestLine(LINES, at(5, 96), {}), "high");
  assert.equal(nearestLine(LINES, at(5, 55), {}), "rising");
  assert.equal(nearestLine(LINES, at(2.5, 28), {}), "rising");
});

test("no line is found far from all lines or beyond their ends", () => {
  assert.equal(nearestLine(LINES, at(5, 30), {}), null);
  assert.equal(nearestLine(LINES, at(11, 100), {}), null);
  assert.equal(nearestLine([], at(5, 50), {}), null);
});

test("a smoothed line is found at its smoothed values", () => {
  const noisy: Line = { ...line("noisy", [0, 0]), smooth: [50, 50] };
  assert.equal(nearestLine([...LINES, noisy], at(1, 50), {}), "noisy");
});

test("on a logarithmic axis equal ratios are equal distances", () => {
  const lines = [line("one", [1, 1]), line("ten", [10, 10]), line("hundred", [100, 100])];
  assert.equal(
    nearestLine(lines, { x: 5, top: 50, height: 100, range: [0, 10], isZoomed: true }, { isLog: true }),
    "ten",
  );
});
