import assert from "node:assert/strict";
import { test } from "node:test";
import type { ChartOptions } from "./chart.ts";
import { learningCharts, type Metrics, speedCharts } from "./curves.ts";
import { expectedMetrics, NOTHING } from "./expected.ts";
import type { Points } from "./points.ts";

const LOOK: ChartOptions = {
  smooth: 0,
  ranks: "all",
  count: 2,
  logs: new Set(),
  goal: null,
  isScript: false,
  expected: NOTHING,
};
const POINTS: Points = { xs: [1, 2, 3], ys: [3, 2, 1], bands: [] };

/** Metrics by name, each with the same points for the given ranks. */
function metrics(of: Record<string, readonly number[]>): Metrics {
  return new Map(
    Object.entries(of).map(([name, ranks]) => [name, new Map(ranks.map((rank) => [rank, POINTS] as const))]),
  );
}

const REAL = metrics({
  loss: [-1, 0, 1],
  val_loss: [-1],
  accuracy: [-1, 0, 1],
  val_accuracy: [-1],
  learning_rate: [-1],
  epoch_s: [-1],
  samples_per_s: [-1, 0, 1],
  step_time_s: [0, 1],
  data_wait_s: [-1, 0, 1],
  allreduce_s: [-1, 0, 1],
  step_time_p50_s: [0, 1],
  step_time_p95_s: [0, 1],
  epoch_data_wait_s: [0, 1],
});

test("training and validation share a chart, and metrics of speed have no learning chart", () => {
  const charts = learningCharts(REAL, LOOK);
  assert.deepEqual(
    charts.map(({ key }) => key),
    ["loss", "accuracy", "learning_rate"],
  );
  assert.deepEqual(
    charts[0]?.lines.map(({ key }) => key),
    ["r0", "r1", "train", "val"],
  );
});

test("each custom metric has one chart for its training and validation", () => {
  const charts = learningCharts(metrics({ loss: [0], val_top_5: [-1], top_5: [0, -1], val_only: [-1] }), LOOK);
  const own = charts.filter(({ key }) => key !== "loss");
  assert.deepEqual(
    own.map(({ key, title, lines }) => [key, title, lines.map((line) => line.key)]),
    [
      ["only", "val_only", ["val"]],
      ["top_5", "top_5", ["r0", "train", "val"]],
    ],
  );
});

test("the log scale of losses affects only losses, that of times only times", () => {
  const logOf = (logs: string[]) => {
    const look = { ...LOOK, logs: new Set(logs) };
    return [...learningCharts(REAL, look), ...speedCharts(REAL, look)].filter((one) => one.isLog).map(({ key }) => key);
  };
  assert.deepEqual(logOf(["losses"]), ["loss"]);
  assert.deepEqual(logOf(["times"]), [
    "step_time_s",
    "data_wait_s",
    "allreduce_s",
    "step_time_p50_s",
    "step_time_p95_s",
  ]);
});

test("throughput is drawn once, not once for each rank", () => {
  const throughput = speedCharts(REAL, LOOK).find(({ key }) => key === "samples_per_s");
  assert.deepEqual(
    throughput?.lines.map(({ key }) => key),
    ["step", "train"],
  );
});

test("a rank has the same colour on all charts, also when it is shown alone", () => {
  const colours = (look: ChartOptions): unknown[] =>
    [...learningCharts(REAL, look), ...speedCharts(REAL, look)]
      .flatMap(({ lines }) => lines)
      .filter(({ key }) => key === "r1")
      .map(({ colour }) => colour);
  assert.equal(new Set(colours(LOOK)).size, 1);
  assert.deepEqual(new Set(colours({ ...LOOK, ranks: 1 })), new Set(colours(LOOK)));
});

test("the mean of the ranks is one line in place of theirs", () => {
  const [loss] = learningCharts(REAL, { ...LOOK, ranks: "mean" });
  assert.deepEqual(
    loss?.lines.map(({ key }) => key),
    ["mean", "train", "val"],
  );
});

test("lines of steps are smoothed, lines of epochs are not", () => {
  const [loss] = learningCharts(REAL, { ...LOOK, smooth: 0.5 });
  assert.deepEqual(
    loss?.lines.map(({ smooth }) => smooth !== undefined),
    [true, true, false, false],
  );
});

test("what single ranks of a script report once an epoch is not smoothed, what they report each step is", () => {
  const look = { ...LOOK, smooth: 0.5, isScript: true };
  const areSmooth = (of: Record<string, readonly number[]>): unknown[] =>
    learningCharts(metrics(of), look).flatMap(({ lines }) =>
      lines.map(({ key, smooth }) => [key, smooth !== undefined]),
    );
  assert.deepEqual(areSmooth({ mae: [-1, 1] }), [
    ["r1", false],
    ["train", false],
  ]);
  assert.deepEqual(areSmooth({ val_mae: [-1, 1] }), [
    ["val r1", false],
    ["val", false],
  ]);
  assert.deepEqual(areSmooth({ mae: [0, 1] }), [
    ["r0", true],
    ["r1", true],
  ]);
  assert.deepEqual(areSmooth({ mae: [-1, 0] }), [
    ["r0", true],
    ["train", false],
  ]);
});

test("the steps of any rank of Hora's own loop are smoothed, also when it is shown alone", () => {
  const [loss] = learningCharts(metrics({ loss: [-1, 1] }), { ...LOOK, smooth: 0.5, ranks: 1 });
  assert.deepEqual(
    loss?.lines.map(({ smooth }) => smooth !== undefined),
    [true, false],
  );
});

test("a line over all ranks is that of the training only where there is a validation", () => {
  const named = (of: Record<string, readonly number[]>): unknown[] =>
    [...learningCharts(metrics(of), LOOK), ...speedCharts(metrics(of), LOOK)].map(({ title, lines }) => [
      title,
      lines.map(({ name }) => name),
    ]);
  assert.deepEqual(named({ mae: [-1], val_mae: [-1] }), [["mae", ["train", "validation"]]]);
  assert.deepEqual(named({ "a/b": [-1], validate_s: [-1] }), [
    ["a/b", ["job"]],
    ["validate_s", ["job"]],
  ]);
});

test("the usual metrics have titles in words, others their own names", () => {
  const titles = learningCharts(metrics({ loss: [0], accuracy: [0], __proto__x: [0], iou: [0] }), LOOK);
  assert.deepEqual(
    titles.map(({ title }) => title),
    ["Loss", "Accuracy", "__proto__x", "iou"],
  );
});

test("a job of one rank has no allreduce chart, and its line has no rank number", () => {
  const charts = speedCharts(metrics({ step_time_s: [0], allreduce_s: [0] }), { ...LOOK, count: 1 });
  assert.deepEqual(
    charts.map(({ key, lines }) => [key, lines[0]?.name]),
    [["step_time_s", "each step"]],
  );
});

test("without metrics there are no charts", () => {
  assert.deepEqual([...learningCharts(new Map(), LOOK), ...speedCharts(new Map(), LOOK)], []);
});

test("the goal comes first, and times that a job reports are among the speed", () => {
  const reported = metrics({ mae: [0, 1], val_mae: [-1], val_iou: [-1], validate_s: [0], latency_s: [-1], loss: [0] });
  const keys = (goal: string | null): string[][] =>
    [learningCharts, speedCharts].map((chartsOf) => chartsOf(reported, { ...LOOK, goal }).map(({ key }) => key));
  assert.deepEqual(keys("val_mae"), [
    ["mae", "loss", "iou"],
    ["latency_s", "validate_s"],
  ]);
  assert.deepEqual(keys("latency_s"), [["latency_s", "loss", "iou", "mae"], ["validate_s"]]);
});

test("a validation that each rank reports has a line for each rank", () => {
  const [chart] = learningCharts(metrics({ val_mae: [0, 1] }), LOOK);
  assert.deepEqual(
    chart?.lines.map(({ key, name }) => [key, name]),
    [
      ["val r0", "validation, rank 0"],
      ["val r1", "validation, rank 1"],
    ],
  );
});

test("a live job of Hora's own loop has the places of its charts and lines before their points", () => {
  const job = { spec: {}, dataset: null, ended_at: null };
  const options = { ...LOOK, expected: expectedMetrics(job) };
  const shape = (charts: ReturnType<typeof learningCharts>) =>
    charts.map(({ key, lines }) => [key, lines.map((line) => line.name)]);
  const before = shape(learningCharts(new Map(), options));
  assert.deepEqual(before[0], ["loss", ["rank 0", "rank 1", "train", "validation"]]);
  assert.deepEqual(
    before.map(([key]) => key),
    ["loss", "accuracy", "top5", "learning_rate"],
  );
  assert.deepEqual(before[2], ["top5", ["validation"]]);
  const steps = metrics({ loss: [0, 1], accuracy: [0, 1] });
  assert.deepEqual(shape(learningCharts(steps, options)), before);
  assert.deepEqual(shape(learningCharts(metrics({ ...ALL, val_top5: [-1] }), options)), before);
  assert.deepEqual(shape(speedCharts(new Map(), options)), shape(speedCharts(metrics(SPEEDS), options)));
  assert.deepEqual(learningCharts(new Map(), LOOK), []);
});

test("the data says which metrics come, and scripts, probes and ended jobs promise none", () => {
  const of = (change: object) => [...expectedMetrics({ spec: {}, dataset: null, ended_at: null, ...change })];
  const data = (task: string, classes: number) => ({ dataset: { task, classes: Array(classes).fill("") } });
  assert.ok(of(data("classification", 2)).includes("val_auc"));
  assert.ok(!of(data("classification", 3)).some((name) => /top5|auc/.test(name)));
  assert.deepEqual(of(data("regression", 0)), ["loss", "mae", "val_loss", "val_mae", "val_rmse"]);
  for (const none of [{ spec: { code: "c" } }, { spec: { probe: {} } }, { ended_at: "2030-01-01T00:00:00Z" }])
    assert.deepEqual(of(none), []);
});

const ALL = { loss: [-1, 0, 1], val_loss: [-1], accuracy: [-1, 0, 1], val_accuracy: [-1], learning_rate: [-1] };
const SPEEDS = {
  samples_per_s: [-1, 0, 1],
  step_time_s: [0, 1],
  data_wait_s: [0, 1],
  allreduce_s: [0, 1],
  step_time_p50_s: [0, 1],
  step_time_p95_s: [0, 1],
};

test("the job before is drawn up to where it is continued, with its name, and hides nothing of the job", () => {
  const of = (xs: number[]): Points => ({ xs, ys: xs.map((x) => 1 / x), bands: [] });
  const before = {
    name: "first",
    metrics: new Map(["loss", "val_loss", "learning_rate", "f1"].map((name) => [name, new Map([[-1, of([1, 2, 3])]])])),
    end: 2,
  };
  const own: Metrics = new Map([
    ["loss", new Map([[-1, of([3, 4])]])],
    ["val_loss", new Map([[-1, of([2, 3])]])],
    ["learning_rate", new Map()],
  ]);
  const charts = learningCharts(own, { ...LOOK, before });
  assert.deepEqual(
    charts.map(({ key, lines }) => [key, lines.map((line) => [line.name, [...Array.from(line.xs)]])]),
    [
      [
        "loss",
        [
          ["train", [3, 4]],
          ["validation", [2, 3]],
          ["first", [1, 2]],
          ["first, validation", [1]], // this job repeats an epoch that was trained in part
        ],
      ],
      ["learning_rate", [["first", [1, 2]]]],
    ],
  );
  assert.ok(charts[0]?.lines[2]?.dash);
});

test("a script's steps are drawn up to the first of the job, as its epochs have no place among them", () => {
  const of = (xs: number[]): Points => ({ xs, ys: xs, bands: [] });
  const before = {
    name: "first",
    metrics: new Map([["loss", new Map([[0, of([10, 20, 30])]])]]),
    end: Number.POSITIVE_INFINITY,
  };
  const own: Metrics = new Map([["loss", new Map([[0, of([20, 30])]])]]);
  const [loss] = learningCharts(own, { ...LOOK, before, isScript: true });
  assert.deepEqual(loss?.lines.at(-1)?.xs, [10]);
});
