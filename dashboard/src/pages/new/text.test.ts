import assert from "node:assert/strict";
import { test } from "node:test";
import { brief, jsonText, lowered, objectOf, textOf, typed, withSize } from "./text.ts";

test("numbers are read in the usual notations", () => {
  for (const [text, value] of [
    ["32", 32],
    ["0.0010", 0.001],
    ["1e-3", 0.001],
    [" .5 ", 0.5],
    ["-1", -1],
  ] as const)
    assert.equal(typed("number", text), value, text);
});

test("a text that is no number is kept as it is, and a blank text has no value", () => {
  assert.equal(typed("integer", "1e-"), "1e-");
  assert.equal(typed("integer", "Infinity"), "Infinity");
  assert.equal(typed("number", "1e999"), "1e999");
  assert.equal(typed("integer", " "), undefined);
  assert.equal(typed("text", "42"), "42");
  assert.equal(typed("text_or_number", "0.2"), 0.2);
  assert.equal(typed("text_or_number", "sets/held-out"), "sets/held-out");
});

test("a value is shown as a person would type it", () => {
  assert.equal(textOf(0.001), "0.001");
  assert.equal(textOf(null), "");
});

test("lists and objects are typed as JSON, and a text that is none is kept for the api to judge", () => {
  assert.deepEqual(typed("json", '["python", "train.py"]'), ["python", "train.py"]);
  assert.deepEqual(typed("json", '{"lr": 0.1}'), { lr: 0.1 });
  assert.equal(typed("json", "requirements.txt"), "requirements.txt");
  assert.equal(jsonText("requirements.txt"), "requirements.txt");
  assert.equal(jsonText(["python", "train.py"]), '["python","train.py"]');
  assert.equal(jsonText({ rates: Array(20).fill(0.1) }).split("\n").length, 24);
  assert.equal(jsonText(null), "");
});

test("either of two sizes can be set first, and without both the value is null", () => {
  assert.deepEqual(withSize(null, 0, 96), [96, null]);
  assert.deepEqual(withSize([96, null], 1, 64), [96, 64]);
  assert.equal(withSize([96, null], 0, undefined), null);
});

test("a summary shows a value of each kind in a few words", () => {
  assert.equal(brief([96, 64], "sizes"), "96 × 64");
  assert.equal(brief(null, "part"), "off");
  assert.equal(brief({ a: "1", b: "2" }, "pairs"), "a:1, b:2");
  assert.equal(brief(["flip_horizontal", { name: "crop", padding: 4 }], "choices"), "flip horizontal, crop");
  assert.equal(brief(false, "flag"), "off");
});

test("pairs without a key are left out, and the last pair of a repeated key is kept", () => {
  assert.deepEqual(
    objectOf([
      ["a", "1"],
      ["", "x"],
      ["a", "2"],
    ]),
    { a: "2" },
  );
});

test("a name within a sentence begins with a small letter, unless it is an abbreviation", () => {
  assert.deepEqual(["Speed-up", "GPU time"].map(lowered), ["speed-up", "GPU time"]);
});
