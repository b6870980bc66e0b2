import assert from "node:assert/strict";
import { test } from "node:test";
import { position, wordsOf } from "./words.ts";

test("an unknown field is labelled with its name, in the group of its part, and comes last", () => {
  assert.deepEqual(wordsOf("new_field"), { group: "scheduling", label: "New field" });
  assert.deepEqual(wordsOf("dataset.colours"), { group: "data", label: "Colours" });
  assert.deepEqual(wordsOf("early_stopping.from_epoch"), { group: "stopping", label: "From epoch" });
  assert.ok(position("dataset.colours") > position("dataset.cache_limit_gb"));
});
