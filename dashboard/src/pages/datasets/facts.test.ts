import assert from "node:assert/strict";
import { test } from "node:test";
import type { DatasetVersion } from "../../api/types.ts";
import { classesOf, factsOf, shapeText } from "./facts.ts";

function versionWith(facts: unknown): DatasetVersion {
  return { source: "sets/chips", fingerprint: null, options: { label: "label" }, facts } as unknown as DatasetVersion;
}

const FACTS = {
  format: "images",
  shape: [96, 64, 3],
  train: 1350,
  validation: 150,
  test: 0,
  files: 1500,
  bytes: 2048,
  damaged: 2,
  damaged_files: ["a.png", "b.png"],
  class_counts: { cat: 1, dog: 30, eel: 7 },
};

test("a version that is not validated has few facts", () => {
  assert.deepEqual(factsOf(versionWith(null)), [
    ["Source", "sets/chips"],
    ["Options", '{"label":"label"}'],
  ]);
  assert.deepEqual(classesOf(versionWith(null)), { counts: [], others: 0 });
});

test("the facts of a version are said in words, damage too", () => {
  const facts = new Map(factsOf(versionWith(FACTS)));
  assert.equal(facts.get("Shape"), "96 × 64 × 3");
  assert.equal(facts.get("Samples"), "1,350 to train, 150 to validate, 0 to test");
  assert.equal(facts.get("Damaged"), "2: a.png, b.png");
  assert.equal(new Map(factsOf(versionWith({ ...FACTS, damaged: 0 }))).has("Damaged"), false);
  assert.equal(shapeText(null), "–");
});

test("the largest classes come first, and the others are counted", () => {
  assert.deepEqual(classesOf(versionWith(FACTS), 2), {
    counts: [
      ["dog", 30],
      ["eel", 7],
    ],
    others: 1,
  });
});
