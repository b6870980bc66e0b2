import assert from "node:assert/strict";
import { test } from "node:test";
import { DOCUMENT } from "./document.fixture.ts";
import { errorText, placeErrors } from "./problems.ts";
import { fieldsOf } from "./schema.ts";

const FIELDS = fieldsOf(DOCUMENT);
const error = (field: string, received?: string) => ({
  field,
  message: "is wrong",
  ...(received === undefined ? {} : { received }),
});

function pathOf(field: string): string | undefined {
  return [...placeErrors([error(field)], FIELDS).byPath.keys()][0];
}

test("each error is placed at the field that it belongs to", () => {
  assert.equal(pathOf("batch_size"), "batch_size");
  assert.equal(pathOf("dataset"), "dataset.source");
  assert.equal(pathOf("dataset.image_size.0"), "dataset.image_size");
  assert.equal(pathOf("early_stopping"), "early_stopping");
  assert.equal(pathOf("early_stopping.patience"), "early_stopping.patience");
  assert.equal(pathOf("labels.a.b.[key]"), "labels");
});

test("an error that belongs to no field is kept apart", () => {
  assert.deepEqual(
    placeErrors([error("foo"), error("")], FIELDS).withoutField.map(({ field }) => field),
    ["foo", ""],
  );
});

test("the text of errors names the item, what is allowed and, once, the received value", () => {
  const field = (path: string) => FIELDS.find((each) => each.path === path) ?? assert.fail(path);
  assert.equal(errorText([error("batch_size", "0")], field("batch_size")), "is wrong. It was 0.");
  assert.equal(errorText([error("dataset")], field("dataset.source")), "is wrong.");
  assert.equal(errorText([error("foo")]), "is wrong.");
  assert.equal(errorText([{ field: "gpuz", message: "did you mean `gpus`?" }]), "did you mean `gpus`?");
  assert.equal(errorText([error("labels.a b.[key]", "a b")], field("labels")), "a b: is wrong. It was a b.");
  assert.equal(
    errorText([error("dataset.image_size.1", "0")], field("dataset.image_size")),
    "width: is wrong. It was 0.",
  );
  assert.equal(errorText([error("dataset.augment.0", "x")], field("dataset.augment")), "is wrong. It was x.");
  const either = [
    { field: "dataset.validation", message: "less than 1", received: "3" },
    { field: "dataset.validation", message: "a string", received: "3" },
  ];
  assert.equal(errorText(either, field("dataset.validation")), "less than 1; or a string. It was 3.");
});
