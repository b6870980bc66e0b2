import assert from "node:assert/strict";
import { test } from "node:test";
import { Curves, type FetchMetrics, missing, stateOf } from "./curves.ts";
import { idsOf, rowWith } from "./row.fixture.ts";

const LIVE = rowWith({ id: "a", status: "running", attempt: 1, epoch: 3 });
const ENDED = rowWith({ id: "b", status: "succeeded", attempt: 1, revision: 9, ended_at: "2030-01-01T00:01:00Z" });

function curve(job: string, y: number[]) {
  const series = [{ name: "loss", rank: -1, x: y.map((_, index) => index), y, bands: [] }];
  return { id: job, series };
}

test("the curve of a live job is read again after each epoch, that of an ended job after each revision", () => {
  const curves = new Map([LIVE, ENDED].map((row) => [row.id, { state: stateOf(row, "loss"), x: [], y: [] }]));
  assert.deepEqual(missing([LIVE, ENDED], curves, "loss"), []);
  const now = [
    { ...LIVE, step: 99, revision: 7 },
    { ...ENDED, epoch: 4 },
  ];
  assert.deepEqual(missing(now, curves, "loss"), []);
  assert.equal(
    idsOf(
      missing(
        [
          { ...LIVE, epoch: 4 },
          { ...ENDED, revision: 10 },
        ],
        curves,
        "loss",
      ),
    ),
    "ab",
  );
  assert.equal(idsOf(missing([{ ...LIVE, ended_at: "2030-01-01T00:01:00Z" }], curves, "loss")), "a");
});

test("a job that was never launched has no curve", () => {
  assert.deepEqual(missing([rowWith({ attempt: 0 })], new Map(), "loss"), []);
});

test("the curves of all wanted rows are read with one request, with sorted ids", async () => {
  const paths: string[] = [];
  const fetchMetrics: FetchMetrics = async (path) => {
    paths.push(path);
    return { status: 200, data: { jobs: [curve("a", [3, 2]), { id: "b", series: [] }] }, etag: null };
  };
  const curves = new Curves("loss", fetchMetrics);
  curves.want([ENDED, LIVE]);
  await curves.load();
  assert.deepEqual(paths, ["/v1/metrics?job=a&job=b&name=loss&rank=-1&axis=epoch&max_points=40"]);
  assert.deepEqual(curves.byJob.value.get("a")?.y, [3, 2]);
  assert.deepEqual(curves.byJob.value.get("b")?.y, []);
  await curves.load();
  assert.equal(paths.length, 1);
  curves.close();
});

test("a curve stays when the api answers that it has not changed", async () => {
  const etags: (string | null)[] = [];
  const fetchMetrics: FetchMetrics = async (_, etag) => {
    etags.push(etag);
    const isKnown = etag === "W/1";
    return { status: isKnown ? 304 : 200, data: { jobs: isKnown ? [] : [curve("a", [3, 2])] }, etag: "W/1" };
  };
  const curves = new Curves("loss", fetchMetrics);
  curves.want([LIVE]);
  await curves.load();
  curves.want([{ ...LIVE, epoch: 4 }]);
  await curves.load();
  assert.deepEqual(etags, [null, "W/1"]);
  assert.deepEqual(curves.byJob.value.get("a"), { state: "1/4 loss", x: [0, 1], y: [3, 2] });
  curves.close();
});

test("curves that could not be read are requested again", async () => {
  let isAway = true;
  const fetchMetrics: FetchMetrics = async () => {
    if (isAway) throw new Error("away");
    return { status: 200, data: { jobs: [curve("a", [1])] }, etag: null };
  };
  const curves = new Curves("loss", fetchMetrics);
  curves.want([LIVE]);
  await curves.load();
  assert.equal(curves.byJob.value.size, 0);
  isAway = false;
  await curves.load();
  assert.deepEqual(curves.byJob.value.get("a")?.y, [1]);
  curves.close();
});

test("without a chosen metric each job has the curve of the metric that counts for it", async () => {
  const script = rowWith({ ...ENDED, id: "s", goal_metric: "val_mae" });
  const unknown = rowWith({ ...LIVE, id: "u", goal_metric: null });
  const paths: string[] = [];
  const series = ["val_accuracy", "val_mae"].map((name, place) => ({ name, rank: -1, x: [1], y: [place], bands: [] }));
  const curves = new Curves("", async (path) => {
    paths.push(path);
    return { status: 200, data: { jobs: ["b", "s"].map((id) => ({ id, series })) }, etag: null };
  });
  curves.want([ENDED, script, unknown]);
  await curves.load();
  assert.deepEqual(paths, ["/v1/metrics?job=b&job=s&name=val_accuracy&name=val_mae&rank=-1&axis=epoch&max_points=40"]);
  assert.deepEqual(
    [...curves.byJob.value].map(([id, { y }]) => [id, y[0]]),
    [
      ["b", 0],
      ["s", 1],
    ],
  );
  curves.close();
});
