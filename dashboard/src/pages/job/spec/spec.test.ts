import assert from "node:assert/strict";
import { test } from "node:test";
import { changesOf, fieldsOf, type Schemas } from "./fields.ts";
import { yamlOf } from "./yaml.ts";

const schemas: Schemas = {
  Spec: {
    properties: {
      name: { default: "job" },
      dataset: { anyOf: [{}, { $ref: "#/components/schemas/DatasetSpec" }] },
      model: { default: "lenet5", anyOf: [{}, { $ref: "#/components/schemas/ModelSpec" }] },
      gpus: { default: 1 },
      early_stopping: { anyOf: [{ $ref: "#/components/schemas/EarlyStopping" }, {}] },
      labels: { default: {} },
      probe: { default: null, anyOf: [{ $ref: "#/components/schemas/ProbeSpec" }, {}] },
    },
  },
  DatasetSpec: { properties: { source: {}, augment: { default: [] } }, required: ["source"] },
  ModelSpec: { properties: { name: {}, dropout: { default: 0 } }, required: ["name"] },
  EarlyStopping: { properties: { patience: { default: 3 } } },
  ProbeSpec: { properties: { smallest: { default: 8 } } },
};

const paths = (spec: Parameters<typeof fieldsOf>[0], onlyChanged: boolean): string[] =>
  fieldsOf(spec, schemas)
    .filter(({ isChanged }) => isChanged || !onlyChanged)
    .map(({ path }) => path);

test("fields come in schema order with their full paths, and unknown fields come last", () => {
  const spec = { gpus: 1, dataset: { augment: [], source: "digits" }, name: "job", newer: 1, labels: {}, probe: null };
  assert.deepEqual(paths(spec, false), [
    "name",
    "dataset.source",
    "dataset.augment",
    "gpus",
    "labels",
    "probe",
    "newer",
  ]);
});

test("a field is changed if it differs from its default or has no default", () => {
  const spec = { name: "mine", dataset: { source: "digits", augment: [] }, gpus: 1, early_stopping: { patience: 9 } };
  assert.deepEqual(paths(spec, true), ["name", "dataset.source", "early_stopping.patience"]);
});

test("a part that is off is a change only if the part is on by default", () => {
  const spec = { early_stopping: null, probe: null };
  assert.deepEqual(paths(spec, true), ["early_stopping"]);
  assert.equal(fieldsOf(spec, schemas)[0]?.defaultValue, "on");
  assert.deepEqual(paths({ probe: { smallest: 8 } }, false), ["probe.smallest"]);
});

test("labels are one field", () => {
  assert.deepEqual(changesOf(fieldsOf({ labels: { team: "a" } }, schemas)), { labels: { team: "a" } });
});

test("the changed fields alone form a spec to submit", () => {
  const spec = { name: "job", dataset: { source: "digits", augment: ["flip"] }, gpus: 2, early_stopping: null };
  assert.deepEqual(changesOf(fieldsOf(spec, schemas)), {
    dataset: { source: "digits", augment: ["flip"] },
    gpus: 2,
    early_stopping: null,
  });
});

test("the model name is compared with its default, and kept when another model field changes", () => {
  const usual = fieldsOf({ model: { name: "lenet5", dropout: 0 } }, schemas);
  assert.deepEqual(
    usual.map(({ defaultValue }) => defaultValue),
    ["lenet5", 0],
  );
  assert.deepEqual(changesOf(usual), {});
  const model = { name: "lenet5", dropout: 0.5 };
  assert.deepEqual(changesOf(fieldsOf({ model }, schemas)), { model });
  assert.deepEqual(changesOf(fieldsOf({ model: { name: "mlp", dropout: 0 } }, schemas)), { model: { name: "mlp" } });
});

test("a spec is written as YAML, with quotes around texts that may need them", () => {
  const spec = {
    name: "on two - fast",
    dataset: { source: "synthetic:samples=5", image_size: [8, 8], cache: "none" },
    learning_rate: 1e-7,
    early_stopping: null,
    labels: { "team/a": "yes", n: "1.0", empty: "", quote: 'a "b"\n' },
    none: {},
  };
  assert.equal(
    yamlOf(spec),
    `name: on two - fast
dataset:
  source: "synthetic:samples=5"
  image_size: [8, 8]
  cache: none
learning_rate: 1.0e-7
early_stopping: null
labels:
  team/a: "yes"
  "n": "1.0"
  empty: ""
  quote: "a \\"b\\"\\n"
none: {}
`,
  );
});
