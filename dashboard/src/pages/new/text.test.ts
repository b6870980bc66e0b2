import assert from "node:assert/strict";
import { test } from "node:test";
import { brief, lowered, objectOf, textOf, typed, withSize } from "./text.ts";

test("numbers are read in every way in which people write them", () => {
  for (const [text, value] of [
    ["32", 32],
    ["0.0010", 0.001],
    ["1e-3", 0.001],
    [" .5 ", 0.5],
    ["-1", -1],
  ] as const)
    assert.equal(typed("number", text), value, text);
});

test("what is no number yet is sent as it is, and nothing typed is nothing", () => {
  assert.equal(typed("integer", "1e-"), "1e-");
  assert.equal(typed("integer", "Infinity"), "Infinity");
  assert.equal(typed("number", "1e999"), "1e999");
  assert.equal(typed("integer", " "), undefined);
  assert.equal(typed("text", "42"), "42");
  assert.equal(typed("text_or_number", "0.2"), 0.2);
  assert.equal(typed("text_or_number", "sets/held-out"), "sets/held-out");
});

test("a value is shown as one would type it", () => {
  assert.equal(textOf(0.001), "0.001");
  assert.equal(textOf(null), "");
});

test("of two sizes one may come after the other", () => {
  assert.deepEqual(withSize(null, 0, 96), [96, null]);
  assert.deepEqual(withSize([96, null], 1, 64), [96, 64]);
  assert.equal(withSize([96, null], 0, undefined), null);
});

test("a summary is short", () => {
  assert.equal(brief([96, 64], "sizes"), "96 × 64");
  assert.equal(brief(null, "part"), "off");
  assert.equal(brief({ a: "1", b: "2" }, "pairs"), "a:1, b:2");
  assert.equal(brief(["flip_horizontal"], "choices"), "flip horizontal");
  assert.equal(brief(false, "flag"), "off");
});

test("pairs without a key are left out, and of a key that comes twice the later one stands", () => {
  assert.deepEqual(
    objectOf([
      ["a", "1"],
      ["", "x"],
      ["a", "2"],
    ]),
    { a: "2" },
  );
});

test("a name within a sentence begins small, unless it is an abbreviation", () => {
  assert.deepEqual(["Speed-up", "GPU-hours"].map(lowered), ["speed-up", "GPU-hours"]);
});
