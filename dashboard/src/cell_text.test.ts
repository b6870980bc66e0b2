import assert from "node:assert/strict";
import { test } from "node:test";
import { cellText } from "./cell_text.ts";

test("the place of a job in its study is said by the values of its cell", () => {
  const place = { study: "0abc", study_cell: 2, study_repeat: 1 };
  const values = { gpus: 2, "model.name": "mlp", after: ["a"] };
  assert.equal(cellText({ ...place, study_values: values }), 'gpus=2 name=mlp after=["a"] · repeat 2');
  assert.equal(cellText({ ...place, study_values: null }), "cell 3 · repeat 2");
  assert.equal(cellText({ study: null, study_cell: null, study_repeat: null, study_values: null }), "");
});
