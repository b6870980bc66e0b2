import assert from "node:assert/strict";
import { test } from "node:test";
import { DOCUMENT } from "./document.fixture.ts";
import { differences, edited, isSame, merged, parsed, pathsOf, tidied, valueAt } from "./draft.ts";
import { fieldsOf } from "./schema.ts";

const FIELDS = fieldsOf(DOCUMENT);
const field = (path: string) => FIELDS.find((each) => each.path === path) ?? assert.fail(path);

test("a plain string stands for the main field of a part", () => {
  assert.equal(valueAt({ dataset: "digits" }, "dataset.source"), "digits");
  assert.equal(valueAt({ dataset: "digits" }, "dataset.image_size"), undefined);
  assert.equal(valueAt({ early_stopping: null }, "early_stopping.patience"), undefined);
});

test("a part written as a string becomes an object with a second field, and a string again without it", () => {
  const larger = tidied(edited({ dataset: "digits" }, field("dataset.image_size"), [8, 8]), FIELDS);
  assert.deepEqual(larger, { dataset: { source: "digits", image_size: [8, 8] } });
  assert.deepEqual(tidied(edited(larger, field("dataset.image_size"), undefined), FIELDS), { dataset: "digits" });
});

test("a part with another field set includes its main field, and a part at its default is left out", () => {
  assert.deepEqual(tidied(edited({}, field("model.dropout"), 0.5), FIELDS), {
    model: { name: "lenet5", dropout: 0.5 },
  });
  assert.deepEqual(tidied({ model: { name: "lenet5" } }, FIELDS), {});
});

test("an empty part is kept only if it is off by default, and a part that is switched off is kept", () => {
  assert.deepEqual(tidied({ probe: {}, early_stopping: {} }, FIELDS), { probe: {} });
  assert.deepEqual(tidied({ early_stopping: null }, FIELDS), { early_stopping: null });
});

test("the differences are the fields of a spec that are not at their defaults", () => {
  const spec = {
    name: "job",
    dataset: { source: "digits", image_size: null, validation: 0.2 },
    model: { name: "lenet5", dropout: 0 },
    batch_size: 64,
    early_stopping: null,
    labels: { team: "vision" },
    probe: null,
  };
  assert.deepEqual(differences(spec, FIELDS), {
    dataset: { source: "digits", validation: 0.2 },
    batch_size: 64,
    early_stopping: null,
    labels: { team: "vision" },
  });
});

test("the differences of a part that is on are its values that are not at their defaults", () => {
  const spec = { dataset: "digits", early_stopping: { patience: 5 }, probe: { smallest: 8 } };
  assert.deepEqual(differences(spec, FIELDS), { dataset: "digits", early_stopping: { patience: 5 }, probe: {} });
});

test("the differences of a script's spec have no dataset and no model", () => {
  const spec = {
    code: "c0de",
    command: ["python", "train.py"],
    params: { lr: 0.1, sizes: [1, 2] },
    dataset: null,
    model: null,
    early_stopping: null,
    goal: { metric: "val_mae", mode: null },
  };
  assert.deepEqual(differences(spec, FIELDS), {
    code: "c0de",
    command: ["python", "train.py"],
    params: { lr: 0.1, sizes: [1, 2] },
    goal: { metric: "val_mae" },
    early_stopping: null,
  });
});

test("a change is merged into a spec as the api does it, and its paths are listed", () => {
  const spec = { dataset: "digits", early_stopping: null, labels: { a: "1" } };
  const change = { dataset: { image_size: [8, 8] }, early_stopping: { patience: 2 }, labels: { b: "2" } };
  assert.deepEqual(merged(spec, change), {
    dataset: { source: "digits", image_size: [8, 8] },
    early_stopping: { patience: 2 },
    labels: { a: "1", b: "2" },
  });
  assert.deepEqual(pathsOf(change, FIELDS), [
    "dataset.image_size",
    "early_stopping",
    "early_stopping.patience",
    "labels",
  ]);
});

test("only a JSON object is read as a draft", () => {
  assert.deepEqual(parsed('{"dataset":"digits"}'), { dataset: "digits" });
  for (const text of ["", "[]", "null", '{"dataset":', '"digits"']) assert.equal(parsed(text), undefined, text);
});

test("objects and lists are compared by their contents", () => {
  assert.ok(isSame({ a: [1, 2] }, { a: [1, 2] }));
  assert.ok(!isSame({ a: 1 }, { b: 1 }));
  assert.ok(!isSame([1], [1, 2]));
  assert.ok(!isSame(null, {}));
});
