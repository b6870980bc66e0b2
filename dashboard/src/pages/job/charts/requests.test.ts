import assert from "node:assert/strict";
import { test } from "node:test";
import { metricsPath, type SeriesRequest, stretchFor, utilizationPath } from "./requests.ts";

const REQUEST: SeriesRequest = {
  id: "abc",
  axis: "step",
  ranks: "all",
  count: 2,
  stretch: null,
  hasManySteps: false,
  hasManySeconds: false,
};

function paramsOf(path: string): URLSearchParams {
  return new URL(path, "http://hora").searchParams;
}

test("one request asks for all metrics, and for a short job it asks for no bands", () => {
  assert.equal(metricsPath(REQUEST, []), "/v1/jobs/abc/metrics?axis=step&max_points=1000");
});

test("on the epoch axis, metrics of steps and custom metrics are requested by name, each once", () => {
  const names = paramsOf(metricsPath({ ...REQUEST, axis: "epoch" }, ["top5", "loss"])).getAll("name");
  assert.ok(names.includes("loss") && names.includes("step_time_s") && names.includes("top5"));
  assert.equal(new Set(names).size, names.length);
});

test("for one rank, the request asks for its series and for those over all ranks", () => {
  assert.deepEqual(paramsOf(metricsPath({ ...REQUEST, ranks: 1 }, [])).getAll("rank"), ["-1", "1"]);
});

test("bands are requested for long series and for the mean of ranks", () => {
  assert.ok(paramsOf(metricsPath({ ...REQUEST, hasManySteps: true }, [])).has("bands"));
  assert.ok(!paramsOf(utilizationPath({ ...REQUEST, hasManySteps: true }, ["cpu_percent"])).has("bands"));
  assert.ok(paramsOf(utilizationPath({ ...REQUEST, hasManySeconds: true }, ["cpu_percent"])).has("bands"));
  assert.ok(paramsOf(utilizationPath({ ...REQUEST, ranks: "mean" }, ["cpu_percent"])).has("bands"));
});

test("a series gets fewer points with many ranks, and more points in a range of the axis", () => {
  const points = (request: SeriesRequest): number => Number(paramsOf(metricsPath(request, [])).get("max_points"));
  assert.ok(points({ ...REQUEST, count: 64 }) < points(REQUEST));
  assert.ok(points({ ...REQUEST, count: 4096 }) >= 4);
  assert.ok(points({ ...REQUEST, stretch: [10, 20] }) > points(REQUEST));
});

test("a request for a range has both its ends", () => {
  const params = paramsOf(utilizationPath({ ...REQUEST, stretch: [1.5, 9] }, ["cpu_percent"]));
  assert.deepEqual([params.get("from"), params.get("to")], ["1.5", "9"]);
});

test("the requested range adds half the view on each side and has round ends", () => {
  assert.deepEqual(stretchFor([1000, 2000], null), [500, 2500]);
  const [from, to] = stretchFor([70_003.2, 78_011.7], null) as readonly [number, number];
  assert.ok(from <= 66_000 && to >= 82_000);
  assert.equal(from % 100, 0);
});

test("a small move keeps the requested range; leaving it or zooming in far changes it", () => {
  const before = stretchFor([1000, 2000], null);
  assert.equal(stretchFor([1200, 2200], before), before);
  assert.equal(stretchFor([800, 2200], before), before);
  assert.notDeepEqual(stretchFor([1600, 2600], before), before);
  assert.notDeepEqual(stretchFor([1400, 1600], before), before);
  assert.equal(stretchFor(null, before), null);
});
