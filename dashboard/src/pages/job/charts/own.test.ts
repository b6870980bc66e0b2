import assert from "node:assert/strict";
import { test } from "node:test";
import { ownChartOf } from "../../../charts/own/own_chart.ts";
import type { ChartOptions } from "./chart.ts";
import type { Metrics } from "./curves.ts";
import { ownChart } from "./own.ts";
import type { Points } from "./points.ts";

const points = (xs: number[], ys: number[]): Points => ({ xs, ys, bands: [] });
const METRICS: Metrics = new Map([
  [
    "loss",
    new Map([
      [-1, points([2, 4], [5, 3])],
      [0, points([1, 2, 3, 4], [8, 4, 4, 2])],
      [1, points([1, 2, 3, 4], [6, 4, 2, 2])],
    ]),
  ],
  ["val_loss", new Map([[-1, points([2, 4], [4, 4])]])],
  ["learning_rate", new Map([[-1, points([2, 4], [0.1, 0.01])]])],
]);
const OPTIONS: ChartOptions = {
  smooth: 0.5,
  ranks: 0,
  count: 2,
  logs: new Set(),
  goal: null,
  isScript: false,
  expected: new Set(),
};

const lines = (list: string, options: Partial<ChartOptions> = {}, isLive = false) =>
  ownChart(ownChartOf(list), METRICS, { ...OPTIONS, ...options }, isLive).lines;

test("metrics of an expression meet at the ends of epochs, unless all have points of steps", () => {
  assert.deepEqual(
    lines("loss - val_loss, loss").map(({ xs, ys }) => [xs, ys]),
    [
      [
        [2, 4],
        [1, -1],
      ],
      [
        [1, 2, 3, 4],
        [8, 4, 4, 2],
      ],
    ],
  );
});

test("only the points of steps are smoothed", () => {
  assert.deepEqual(
    lines("loss, val_loss").map(({ smooth }) => smooth !== undefined),
    [true, false],
  );
});

test("a line is of one rank, or of the mean of all", () => {
  assert.deepEqual(lines("loss", { ranks: 1 })[0]?.ys, [6, 4, 2, 2]);
  for (const ranks of ["all", "mean"] as const) {
    const [mean] = lines("loss", { ranks });
    assert.deepEqual([mean?.ys[0], mean?.ys[3]], [7, 2]);
  }
});

test("gpus is the number of GPUs, and each line is there once", () => {
  assert.deepEqual(lines("val_loss / gpus")[0]?.ys, [2, 2]);
  assert.deepEqual(
    lines("*loss, val_loss").map(({ name }) => name),
    ["loss", "val_loss"],
  );
});

test("an expression without its metrics has no line, or an empty one while they may come", () => {
  assert.deepEqual(lines("mae / loss"), []);
  assert.deepEqual(lines("mae / loss", {}, true)[0]?.xs, []);
  assert.deepEqual(lines("loss - "), []);
});

test("the axes may be logarithmic, and the title is that of the person or the list", () => {
  const chart = ownChart(ownChartOf("xy|Rate|learning_rate"), METRICS, OPTIONS, false);
  assert.deepEqual([chart.title, chart.isLog, chart.lines[0]?.xs], ["Rate", true, [2, 4].map(Math.log10)]);
  assert.equal(ownChart(ownChartOf("loss"), METRICS, OPTIONS, false).title, "loss");
});

test("the means of the bands of a thinned series count, not its spikes", () => {
  const band = (x_from: number, mean: number) => ({ x_from, x_to: x_from + 9, count: 10, mean });
  const spiky = { xs: [1, 15], ys: [100, 100], bands: [band(1, 2), band(11, 4)] };
  const flat = { xs: [3, 12], ys: [1, 1], bands: [band(1, 1), band(11, 1)] };
  const metrics: Metrics = new Map([
    ["a", new Map([[0, spiky]])],
    ["b", new Map([[0, flat]])],
  ]);
  const chart = ownChart(ownChartOf("a - b"), metrics, OPTIONS, false);
  assert.deepEqual(chart.lines[0]?.ys, [1, 3]);
});
