import assert from "node:assert/strict";
import { test } from "node:test";
import { utilizationOf, utilizationPath } from "./utilization.ts";

const SLOT = { metric: "gpu_percent", unit: "%", host: "a", limit: null, step: [], bands: [] };
const slot = (rank: number, attempt: number, x: number[], y: (number | null)[]) => ({
  ...SLOT,
  slot: rank,
  rank,
  attempt,
  x,
  y,
});
const NONE = { series: [], hosts: [] };

test("a run has the mean over its slots with their range, and a gap between its attempts", () => {
  const series = [
    slot(0, 1, [0, 1], [10, 20]),
    slot(1, 1, [0, 1], [30, null]),
    slot(0, 2, [9], [50]),
    slot(1, 2, [9], [60]),
  ];
  const curve = utilizationOf({ ...NONE, series }).get("gpu_percent");
  assert.deepEqual([...(curve?.xs ?? [])], [0, 1, 9, 9]);
  assert.deepEqual([...(curve?.ys ?? [])], [20, 20, Number.NaN, 55]);
  assert.deepEqual(curve?.around?.counts, [2, 1, Number.NaN, 2]);
  assert.deepEqual(curve?.around?.spread?.low, [10, 20, Number.NaN, 50]);
  assert.deepEqual(curve?.around?.spread?.high, [30, 20, Number.NaN, 60]);
});

test("one slot has no range, and a metric of hosts has its own chart", () => {
  const hosts = [{ metric: "cpu_percent", unit: "%", host: "a", limit: null, x: [0], y: [7], bands: [] }];
  const curves = utilizationOf({ series: [{ ...slot(0, 1, [0], [90]), metric: "cpu_percent" }], hosts });
  assert.equal(curves.get("cpu_percent")?.ys[0], 90);
  assert.equal(curves.get("cpu_percent")?.around, undefined);
  assert.equal(curves.get("hosts/cpu_percent")?.ys[0], 7);
});

test("the more runs and slots, the fewer points of each", () => {
  const bands = [
    [1, 1],
    [8, 4],
    [64, 200],
  ].map(([gpus, runs]) => /bands=(\d+)/.exec(utilizationPath("a", gpus as number, runs as number))?.[1]);
  assert.deepEqual(bands, ["200", "94", "60"]);
});
