import assert from "node:assert/strict";
import { test } from "node:test";
import { DOCUMENT } from "./document.fixture.ts";
import { fieldsOf, isOfLoop, ofScript } from "./schema.ts";

const FIELDS = new Map(fieldsOf(DOCUMENT).map((field) => [field.path, field]));

test("fields of every kind are found, also inside parts", () => {
  const kinds = Object.fromEntries([...FIELDS.values()].map(({ path, kind }) => [path, kind]));
  assert.deepEqual(kinds, {
    name: "text",
    code: "text",
    command: "json",
    params: "json",
    "dataset.source": "text",
    "dataset.image_size": "sizes",
    "dataset.validation": "text_or_number",
    "dataset.augment": "choices",
    "model.name": "text",
    "model.freeze_base": "flag",
    "model.dropout": "number",
    batch_size: "integer",
    learning_rate: "number",
    min_gpus: "integer",
    "optimizer.name": "choice",
    "optimizer.momentum": "number",
    class_weights: "json",
    early_stopping: "part",
    "early_stopping.patience": "integer",
    goal: "part",
    "goal.metric": "text",
    "goal.mode": "choice",
    labels: "pairs",
    probe: "part",
    "probe.smallest": "integer",
  });
});

test("defaults come from the schema, and a required field has none", () => {
  assert.equal(FIELDS.get("batch_size")?.defaultValue, 32);
  assert.equal(FIELDS.get("dataset.source")?.defaultValue, undefined);
  assert.equal(FIELDS.get("model.name")?.defaultValue, "lenet5");
  assert.equal(FIELDS.get("optimizer.name")?.defaultValue, "adam");
  assert.deepEqual(FIELDS.get("early_stopping")?.defaultValue, {});
  assert.equal(FIELDS.get("probe")?.defaultValue, null);
  assert.equal(FIELDS.get("min_gpus")?.isNullable, true);
});

test("a script needs no dataset, has no model, and does not stop early by default", () => {
  const defaults = [...FIELDS.values()].map(ofScript).filter(({ defaultValue }) => defaultValue === null);
  const paths = defaults.map(({ path }) => path);
  for (const path of ["dataset.source", "model.name", "early_stopping"]) assert.ok(paths.includes(path), path);
  assert.equal(FIELDS.get("model.name")?.defaultValue, "lenet5");
});

test("a script has no use for the choices of Hora's own loop", () => {
  const paths = [...FIELDS.values()].filter(isOfLoop).map(({ path }) => path);
  assert.deepEqual(paths, [
    "dataset.augment",
    "optimizer.name",
    "optimizer.momentum",
    "class_weights",
    "probe",
    "probe.smallest",
  ]);
});

test("a choice may be null", () => {
  const { options, isNullable } = FIELDS.get("goal.mode") ?? assert.fail();
  assert.deepEqual([options, isNullable], [["min", "max"], true]);
});

test("descriptions come from the schema", () => {
  const description = (path: string) => FIELDS.get(path)?.description;
  assert.equal(description("batch_size"), "Samples in one step: of each GPU, or of all with `batch_per: global`.");
  assert.equal(description("probe"), "Makes the job a batch probe.");
  assert.equal(description("probe.smallest"), "The first batch to try.");
  assert.equal(description("name"), "");
});

test("limits are written in words", () => {
  assert.equal(FIELDS.get("batch_size")?.limits, "1 to 1,048,576");
  assert.equal(FIELDS.get("learning_rate")?.limits, "above 0, at most 1,000");
  assert.equal(FIELDS.get("model.dropout")?.limits, "at least 0, below 1");
  assert.equal(FIELDS.get("dataset.validation")?.limits, "above 0, below 1");
  assert.equal(FIELDS.get("dataset.image_size")?.limits, "1 to 4,096");
  assert.equal(FIELDS.get("name")?.limits, "");
});
