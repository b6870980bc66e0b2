import assert from "node:assert/strict";
import { test } from "node:test";
import type { Json } from "../../new/schema.ts";
import { textOfValues, valuesOf } from "./values.ts";

test("values are read as people type them", () => {
  const cases: [text: string, isSearch: boolean, values: Json][] = [
    ["32, 64", false, [32, 64]],
    ["mlp, lenet5", false, ["mlp", "lenet5"]],
    ['"mlp", {"name": "lenet5", "dropout": 0.5}', false, ["mlp", { name: "lenet5", dropout: 0.5 }]],
    ["true, null", false, [true, null]],
    ["", false, []],
    ["0 to 0.5", true, { uniform: [0, 0.5] }],
    ["1e-4 to 0.1 log", true, { log: [0.0001, 0.1] }],
    ["int 1 to 8", true, { int: [1, 8] }],
    ["int 16 to 512 log", true, { int: [16, 512], log: true }],
    ["32, 64", true, [32, 64]],
    ["1 to 8", false, ["1 to 8"]],
  ];
  for (const [text, isSearch, values] of cases) assert.deepEqual(valuesOf(text, isSearch), values, text);
});

test("values that were written are read back the same", () => {
  const lists: Json[] = [[1, 0.5], ["a", "b"], ["1", "2"], ["a, b"], [null, false], [[1, 2], { x: 1 }], []];
  for (const list of lists) assert.deepEqual(valuesOf(textOfValues(list), false), list);
  for (const range of [{ uniform: [0, 1] }, { log: [0.1, 1] }, { int: [1, 2] }, { int: [1, 8], log: true }])
    assert.deepEqual(valuesOf(textOfValues(range), true), range);
});
