import assert from "node:assert/strict";
import { test } from "node:test";
import { isOpen, sectionsOf } from "./sections.ts";

test("two metrics with the same first part make a section, the others stay loose", () => {
  const charts = ["loss", "train/loss", "layer/0/norm", "train/gen/loss", "lr/a"].map((key) => ({
    key,
    title: key,
    lines: [],
  }));
  const { loose, sections } = sectionsOf(charts);
  assert.deepEqual(
    loose.map(({ key }) => key),
    ["loss", "layer/0/norm", "lr/a"],
  );
  assert.deepEqual(
    sections.map(({ title, charts }) => [title, charts.length]),
    [["train", 2]],
  );
});

test("a section is unfolded until it is listed, another group only while it is listed", () => {
  assert.equal(isOpen("-train", new Set()), true);
  assert.equal(isOpen("-train", new Set(["-train"])), false);
  assert.equal(isOpen("hosts", new Set(["hosts"])), true);
  assert.equal(isOpen("hosts", new Set()), false);
});
