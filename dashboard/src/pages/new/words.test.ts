import assert from "node:assert/strict";
import { test } from "node:test";
import { position, wordsOf } from "./words.ts";

test("an unknown field is labelled with its name, in the group of its part, and comes last", () => {
  assert.deepEqual(wordsOf("clip_norm"), { group: "scheduling", label: "Clip norm" });
  assert.deepEqual(wordsOf("dataset.colours"), { group: "data", label: "Colours" });
  assert.deepEqual(wordsOf("early_stopping.from_epoch"), { group: "stopping", label: "From epoch" });
  assert.ok(position("dataset.colours") > position("dataset.cache_limit_gb"));
});
