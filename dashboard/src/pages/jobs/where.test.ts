import assert from "node:assert/strict";
import { test } from "node:test";
import { Problem } from "../../api/problem.ts";
import { EVERYTHING } from "./view.ts";
import { type Comparison, comparisonsOf, conditionOf, conditionsOf, messageFor } from "./where.ts";

const CASES: [text: string, ...comparisons: [Comparison["field"], Comparison["operator"], Comparison["value"]][]][] = [
  ["spec.batch_size >= 64", ["spec.batch_size", ">=", "64"]],
  ["metrics.val/iou:0@x-y > 0.9 or starred", ["metrics.val/iou:0@x-y", ">", "0.9"], ["starred", "", ""]],
  ["!notes or name ~ ^resnet.*seed[0-3]$", ["notes", "!", ""], ["name", "~", "^resnet.*seed[0-3]$"]],
  ["name !~ a=b c", ["name", "!~", "a=b c"]],
  ['"label.a b" = " or " or label.x != "\\"q\\""', ['"label.a b"', "=", '" or "'], ["label.x", "!=", '"\\"q\\""']],
  ["name ~ (a|b)\\\\.c", ["name", "~", "(a|b)\\\\.c"]],
  ['name = say "hi"', ["name", "=", 'say "hi"']],
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

test("every value is read as it was written, also in front of another comparison", () => {
  const pieces = ["or", " ", '"', "\\", "(", "=", "!", "a"];
  const values = pieces.flatMap((a) => pieces.flatMap((b) => pieces.flatMap((c) => pieces.map((d) => a + b + c + d))));
  for (const value of ["", ...values]) {
    const label = conditionsOf({ ...EVERYTHING, labels: [`x:${value}`] })[0]?.text ?? "";
    const [first, second, ...more] = comparisonsOf(`${label} or starred`) ?? [];
    const read = first?.value ?? "";
    assert.equal(read.startsWith('"') ? JSON.parse(read) : read, value, label);
    assert.deepEqual([second?.field, more], ["starred", []], label);
    assert.equal(conditionOf([{ field: "label.x", operator: "=", value: read }]), label);
  }
});

test("a name that would be read as something else is written in quotes", () => {
  for (const field of ["or", "a b", "!a", 'a"', "a or b", '"a', " a"]) {
    const [read] = comparisonsOf(conditionOf([{ field, operator: "!", value: "" }]) ?? "") ?? [];
    assert.deepEqual([JSON.parse(read?.field ?? ""), read?.operator], [field, "!"]);
  }
});

test("spaces around an operator are free", () => {
  assert.deepEqual(comparisonsOf("  gpus>2  or  gpus  <= 1 "), [
    { field: "gpus", operator: ">", value: "2" },
    { field: "gpus", operator: "<=", value: "1" },
  ]);
});

test("what is no condition is not read", () => {
  for (const text of [
    "",
    "  ",
    "gpus > 2 or ",
    " or gpus",
    "!gpus > 2",
    "> 2",
    'name = "a" b',
    'name = "a',
    "a b",
    "or",
    "gpus == 2",
    "name =~ a",
  ])
    assert.equal(comparisonsOf(text), null, text);
});

test("a value that is missing before the next comparison is empty", () => {
  const [first, second] = comparisonsOf("name = or starred") ?? [];
  assert.deepEqual([first?.value, second?.field], ["", "starred"]);
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

test("a message stands at the condition that it is about, and not at one that begins like it", () => {
  const problem = new Problem(422, "invalid", "Invalid", "", [
    { field: "where", message: "no number", received: "gpus > x" },
    { field: "where", message: "too long", received: "name = aaa…" },
  ]);
  const messages = ["gpus > x", "gpus > xy", "name = aaabbb", "name = a"].map((text) => messageFor(text, problem));
  assert.deepEqual(messages, ["no number", undefined, "too long", undefined]);
});
