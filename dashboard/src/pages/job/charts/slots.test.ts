import assert from "node:assert/strict";
import { test } from "node:test";
import type { SampleSeries, Utilization } from "../../../api/types.ts";
import { samplesFrom } from "./answers.ts";
import type { ChartOptions } from "./chart.ts";
import { NOTHING } from "./expected.ts";
import { gpuCharts, hasGpus, hostCharts, metricsOf, slotCharts } from "./slots.ts";

const LOOK: ChartOptions = {
  smooth: 0,
  ranks: "all",
  count: 2,
  logs: new Set(),
  goal: null,
  isScript: false,
  expected: NOTHING,
};

function series(metric: string, rank: number, more: Partial<SampleSeries> = {}): SampleSeries {
  return {
    ...{ metric, rank, unit: "", host: "a", slot: rank, attempt: 1, limit: null },
    ...{ x: [0, 1], step: [0, 1], y: [1, 2], bands: [] },
    ...more,
  };
}

function samples(all: SampleSeries[], hosts: Utilization["hosts"] = []) {
  return samplesFrom({ series: all, hosts });
}

test("only the metrics of open groups are requested, each one once", () => {
  assert.deepEqual(metricsOf(new Set(["learning"])), []);
  const both = metricsOf(new Set(["slots", "hosts"]));
  assert.equal(both.filter((metric) => metric === "cpu_percent").length, 1);
  assert.ok(both.includes("gpu_percent") && both.includes("disk_read_bytes_per_s"));
  assert.ok(!both.includes("gpu_throttle") && metricsOf(new Set(["gpus"])).includes("gpu_throttle"));
});

test("CPU slots have no GPU charts, not even empty ones", () => {
  const sampleSet = samples([series("cpu_percent", 0), series("memory_bytes", 0)]);
  assert.equal(hasGpus(sampleSet), false);
  assert.deepEqual(
    slotCharts(sampleSet, new Map(), LOOK).map(({ key }) => key),
    ["cpu_percent", "memory_bytes"],
  );
  assert.deepEqual(gpuCharts(sampleSet, LOOK), []);
  assert.equal(hasGpus(samples([series("gpu_percent", 0)])), true);
});

test("the axis of GPU memory ends at the greatest limit, that of a rank's memory has no limit", () => {
  const found = samples([series("gpu_memory_bytes", 0, { limit: 40 }), series("gpu_memory_bytes", 1, { limit: 80 })]);
  const [chart] = slotCharts(found, new Map(), LOOK);
  assert.deepEqual([chart?.yFrom, chart?.yTo], [0, 80]);
  const [ofCpu] = slotCharts(samples([series("memory_bytes", 0, { limit: 80 })]), new Map(), LOOK);
  assert.equal(ofCpu?.yTo, undefined, "a rank does not use all of its host's memory");
});

test("a rank has one line over all attempts, in their order, with a gap between them", () => {
  const found = samples([
    series("cpu_percent", 0, { attempt: 2, x: [5, 6], y: [7, 8] }),
    series("cpu_percent", 0, { attempt: 1 }),
  ]);
  const [chart] = slotCharts(found, new Map(), LOOK);
  assert.equal(chart?.lines.length, 1);
  assert.deepEqual(chart?.lines[0]?.ys, [1, 2, Number.NaN, 7, 8]);
});

test("waiting for data is shown in percent of the step time", () => {
  const of = (ys: number[]) => new Map([[0, { xs: [1, 2], ys, bands: [] }]]);
  const metrics = new Map([
    ["data_wait_s", of([1, 1])],
    ["step_time_s", of([4, 2])],
  ]);
  const [chart] = slotCharts(samples([]), metrics, LOOK);
  assert.deepEqual(chart?.lines[0]?.ys, [25, 50]);
});

test("a slowed GPU shows only its most severe reason", () => {
  const found = samples([series("gpu_throttle", 0, { x: [0, 1, 2, 3, 4], y: [1, 4, 0x44, 0x4c, null] })]);
  const [chart] = gpuCharts(found, LOOK);
  const ys = Array.from(chart?.lines[0]?.ys ?? []);
  assert.deepEqual(
    ys.slice(0, 4).map((y) => chart?.format?.(y)),
    ["no", "power", "heat", "hardware"],
  );
  assert.ok(Number.isNaN(ys[4]));
});

test("each host has one line", () => {
  const host = (name: string) => ({
    metric: "cpu_percent",
    unit: "",
    host: name,
    limit: null,
    x: [0],
    y: [5],
    bands: [],
  });
  const [chart] = hostCharts(samples([], [host("a"), host("b")]), LOOK);
  assert.deepEqual(
    chart?.lines.map(({ name }) => name),
    ["a", "b"],
  );
});

test("detail replaces coarse points in its range, also if it has no points there", () => {
  const wide = { series: [series("cpu_percent", 0, { x: [0, 10, 20, 30], y: [0, 1, 2, 3] })], hosts: [] };
  const near = { series: [series("cpu_percent", 0, { x: [9, 10, 11], y: [5, 6, 7] })], hosts: [] };
  const found = samplesFrom(wide, { data: near, stretch: [8, 22] });
  assert.deepEqual(found.slots.get("cpu_percent")?.pointsByKey.get(0)?.ys, [0, 5, 6, 7, 3]);
  const empty = samplesFrom(wide, { data: { series: [], hosts: [] }, stretch: [8, 22] });
  assert.deepEqual(empty.slots.get("cpu_percent")?.pointsByKey.get(0)?.ys, [0, 3]);
});
