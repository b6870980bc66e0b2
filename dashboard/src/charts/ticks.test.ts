import assert from "node:assert/strict";
import { test } from "node:test";
import { axisUnit, distances, figureAt, logPlaces, logText, powerPlaces } from "./ticks.ts";

test("the distances between ticks rise without repeats", () => {
  for (const unit of ["tens", "bytes", "seconds"] as const) {
    const found = distances(unit);
    assert.deepEqual(
      found,
      [...new Set(found)].toSorted((a, b) => a - b),
    );
  }
});

test("neighbouring ticks have different texts, however close they are", () => {
  for (const distance of distances("tens").filter((one) => one >= 1e-9 && one <= 1e6)) {
    assert.notEqual(figureAt(12 + distance, distance), figureAt(12, distance), `at ${distance}`);
  }
  for (const distance of distances("seconds")) {
    const about = distance * 1234;
    assert.notEqual(figureAt(about + distance, distance, "seconds"), figureAt(about, distance, "seconds"));
  }
});

test("neighbouring ticks of very large and very small numbers differ too", () => {
  for (const [value, distance] of [
    [1.5e300, 1e296],
    [2.5e-300, 1e-302],
    [0.00002443, 1e-8],
    [3e12, 1e9],
  ] as const)
    assert.notEqual(figureAt(value + distance, distance), figureAt(value, distance));
  assert.equal(figureAt(2e300, 1e300), "2e+300");
  assert.equal(figureAt(5e-300, 5e-301), "5e-300");
});

test("an axis of very large or very small numbers has a power of ten as unit, others have none", () => {
  assert.equal(axisUnit(-3e300, 2e299), 1e300);
  assert.equal(axisUnit(0, 4e-300), 1e-300);
  for (const [least, greatest] of [
    [0, 0],
    [1e-9, 1e-8],
    [-5, 1e14],
  ] as const)
    assert.equal(axisUnit(least, greatest), 1);
});

test("a tick has as many decimals as the distance between ticks needs, and no more", () => {
  assert.deepEqual(
    [0, 0.5, 1].map((value) => figureAt(value, 0.5)),
    ["0.0", "0.5", "1.0"],
  );
  assert.equal(figureAt(5000, 1000), "5,000");
  assert.equal(figureAt(0.00001, 0.00001), "1e-5");
});

test("a time is written in the units that the distance between ticks needs", () => {
  assert.equal(figureAt(0, 86_400, "seconds"), "0 s");
  assert.equal(figureAt(90, 30, "seconds"), "1 min 30 s");
  assert.equal(figureAt(3600, 60, "seconds"), "1 h");
  assert.equal(figureAt(3725.5, 0.5, "seconds"), "1 h 2 min 5.5 s");
  assert.equal(figureAt(3725, 3600, "seconds"), "1 h");
  assert.equal(figureAt(59.999_999_99, 1, "seconds"), "1 min");
  assert.equal(figureAt(-90, 30, "seconds"), "-1 min 30 s");
});

test("bytes are written in binary units", () => {
  assert.equal(figureAt(3 * 2 ** 30, 2 ** 30, "bytes"), "3 GiB");
});

test("a logarithmic axis of x has its ticks at round values, written in their unit", () => {
  const texts = (from: number, to: number) => powerPlaces(from, to).map((place) => logText(place, 1, "tens"));
  assert.deepEqual(texts(0, 3), ["1.0", "10", "100", "1,000"]);
  assert.equal(logText(Math.log10(7200), 1, "seconds"), "2 h");
  assert.notEqual(logText(2, 0.001, "tens"), logText(2.001, 0.001, "tens"));
});

test("ticks of a logarithmic axis have room for their texts", () => {
  assert.deepEqual(logPlaces(0.77, 3.34), [1, 1.5, 2, 2.5, 3]);
  assert.deepEqual(logPlaces(0.7, 3), [1, 1.5, 2, 2.5, 3]);
});
