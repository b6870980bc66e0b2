import assert from "node:assert/strict";
import { test } from "node:test";
import { foundIn, itemsOf } from "./found.ts";

const NAMES = ["loss", "val_loss", "layer_1/grad", "layer_2/grad", "layer_2/norm", "val-loss", "100*"];

function texts(list: string): string[][] {
  return foundIn(list, NAMES).map(({ formulas }) => formulas.map(({ text }) => text));
}

test("commas in parentheses, quotes and regular expressions belong to an item", () => {
  assert.deepEqual(itemsOf('min(a, max(b, c)), "x, y" - 1 ,/a{1,2}/, /b/c/,'), [
    "min(a, max(b, c))",
    '"x, y" - 1',
    "/a{1,2}/",
    "/b/c/",
  ]);
  assert.deepEqual(itemsOf(" , "), []);
  assert.deepEqual(itemsOf('a), "b, c'), ["a)", '"b', "c"]);
});

test("names are found by a star and by a regular expression, or are as they are", () => {
  assert.deepEqual(texts("layer_*/grad, *loss"), [
    ["layer_1/grad", "layer_2/grad"],
    ["loss", "val_loss", "val-loss"],
  ]);
  assert.deepEqual(texts(String.raw`/layer_2\/.*/, /^l.*s$/`), [["layer_2/grad", "layer_2/norm"], ["loss"]]);
  assert.deepEqual(texts("val-loss, 100*"), [["val-loss"], ["100*"]]);
  assert.deepEqual(texts("nothing*, /^$/"), [[], []]);
});

test("a star beside a space or a number is a product", () => {
  for (const list of ["loss * val_loss", "2*loss", "loss*2", "(loss)*val_loss"]) {
    const [found] = foundIn(list, NAMES);
    assert.equal(found?.formulas[0]?.text, list);
    assert.deepEqual(found?.missing, []);
  }
});

test("an item says which metrics are missing, or what is wrong with it", () => {
  assert.deepEqual(foundIn("loss / mae / gpus", NAMES)[0]?.missing, ["mae"]);
  assert.equal(foundIn("loss -", NAMES)[0]?.problem, "a value is missing before the end");
  assert.match(foundIn("/(/", NAMES)[0]?.problem ?? "", /regular expression/);
});
