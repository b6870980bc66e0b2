import assert from "node:assert/strict";
import { test } from "node:test";
import { distances, figureAt } from "./ticks.ts";

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
