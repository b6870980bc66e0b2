import assert from "node:assert/strict";
import { test } from "node:test";
import { axisOf, ranksOf, setOf, smoothFrom, textOf, toggled } from "./view.ts";

test("an invalid setting in the address becomes the default or the nearest valid value", () => {
  assert.equal(axisOf("epoch", "step"), "epoch");
  assert.equal(axisOf("furlong", "time"), "time");
  assert.equal(smoothFrom("0"), 0);
  assert.equal(smoothFrom("7"), 0.99);
  assert.equal(smoothFrom("much"), smoothFrom(""));
  assert.equal(ranksOf("1", 2), 1);
  assert.equal(ranksOf("2", 2), "all");
});

test("up to 8 ranks are all shown, more as their mean, unless the address asks for all", () => {
  assert.equal(ranksOf("", 8), "all");
  assert.equal(ranksOf("", 9), "mean");
  assert.equal(ranksOf("all", 64), "all");
});

test("a list reads back as it was written, and the default list is not written", () => {
  const defaultItems = ["a", "b"];
  for (const items of [["a"], ["b", "c"], []]) {
    const text = textOf(new Set(items), defaultItems);
    assert.deepEqual([...setOf(text ?? "", defaultItems)], items);
  }
  assert.equal(textOf(new Set(["b", "a"]), defaultItems), null);
  assert.deepEqual([...setOf("", defaultItems)], defaultItems);
});

test("toggling removes an item that is there and adds one that is not", () => {
  assert.deepEqual([...toggled(new Set(["a"]), "a")], []);
  assert.deepEqual([...toggled(new Set(["a"]), "b")], ["a", "b"]);
});
