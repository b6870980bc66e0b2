import assert from "node:assert/strict";
import { test } from "node:test";
import { position, wordsOf } from "./words.ts";

test("a field that the form does not know is called by its name, and stands last beside the fields of its part", () => {
  assert.deepEqual(wordsOf("clip_norm"), { group: "scheduling", label: "Clip norm" });
  assert.deepEqual(wordsOf("dataset.balance"), { group: "data", label: "Balance" });
  assert.deepEqual(wordsOf("early_stopping.from_epoch"), { group: "stopping", label: "From epoch" });
  assert.ok(position("dataset.balance") > position("dataset.cache_limit_gb"));
});
