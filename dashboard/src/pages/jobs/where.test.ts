import assert from "node:assert/strict";
import { test } from "node:test";
import { EVERYTHING } from "./view.ts";
import { type Comparison, comparisonsOf, conditionOf, conditionsOf } from "./where.ts";

const CASES: [text: string, ...comparisons: [Comparison["field"], Comparison["operator"], Comparison["value"]][]][] = [
  ["spec.batch_size >= 64", ["spec.batch_size", ">=", "64"]],
  ["metrics.val/iou:0@x-y > 0.9 or starred", ["metrics.val/iou:0@x-y", ">", "0.9"], ["starred", "", ""]],
  ["!notes or name ~ ^resnet.*seed[0-3]$", ["notes", "!", ""], ["name", "~", "^resnet.*seed[0-3]$"]],
  ["name !~ a=b c", ["name", "!~", "a=b c"]],
  ['"label.a b" = " or " or label.x != "\\"q\\""', ['"label.a b"', "=", '" or "'], ["label.x", "!=", '"\\"q\\""']],
  ["name = for or", ["name", "=", "for or"]],
];

test("a condition is read, and written as it was", () => {
  for (const [text, ...parts] of CASES) {
    const comparisons = parts.map(([field, operator, value]) => ({ field, operator, value }));
    assert.deepEqual(comparisonsOf(text), comparisons, text);
    assert.equal(conditionOf(comparisons), text);
  }
});

test("what would be read as something else is written in quotes", () => {
  const written = conditionOf([
    { field: "label.a b", operator: "=", value: "this or that" },
    { field: "name", operator: "~", value: "a b" },
  ]);
  assert.equal(written, '"label.a b" = "this or that" or name ~ a b');
});

test("spaces around an operator are free", () => {
  assert.deepEqual(comparisonsOf("  gpus>2  or  gpus  <= 1 "), [
    { field: "gpus", operator: ">", value: "2" },
    { field: "gpus", operator: "<=", value: "1" },
  ]);
});

test("what is no condition is not read", () => {
  for (const text of ["", "  ", "gpus > 2 or ", " or gpus", "!gpus > 2", "> 2", 'name = "a" b', 'name = "a', "a b"])
    assert.equal(comparisonsOf(text), null, text);
});

test("a condition without a field or a value is not complete", () => {
  assert.equal(conditionOf([{ field: "", operator: "=", value: "2" }]), null);
  assert.equal(conditionOf([{ field: "gpus", operator: "=", value: "" }]), null);
  assert.equal(conditionOf([{ field: "gpus", operator: "!", value: "2" }]), "!gpus");
});

test("the owner, the project and labels of a view are conditions too, each of which can be removed", () => {
  const view = { ...EVERYTHING, owner: "ada", labels: ["team:a:b", "x:"], where: ["starred", "gpus > 1"] };
  const conditions = conditionsOf(view);
  assert.deepEqual(
    conditions.map(({ text }) => text),
    ["owner = ada", "label.team = a:b", 'label.x = ""', "starred", "gpus > 1"],
  );
  assert.deepEqual(conditions[1]?.removal, { labels: ["x:"] });
  assert.deepEqual(conditions[4]?.removal, { where: ["starred"] });
});
