import assert from "node:assert/strict";
import { test } from "node:test";
import { brushesText, isWithin, parseBrushes, withBrush } from "./brushes.ts";
import { type Field, valueText } from "./fields.ts";
import { job } from "./job.fixture.ts";

const model: Field = {
  key: "model.name",
  label: "model",
  isResult: false,
  valueIn: ({ spec }) => (spec["model"] as string | undefined) ?? null,
  format: valueText,
};

test("ranges and texts are read back from the address unchanged", () => {
  const brushes = new Map([
    ["batch_size", { from: 32, to: 128 }],
    ["learning_rate", { from: -0.5, to: 1e-4 }],
    ["val/iou:0", { from: 0.5, to: 1 }],
    ["model.name", { texts: ["lenet5", "a,b|c:d"] }],
  ]);
  assert.deepEqual(parseBrushes(brushesText(brushes)), brushes);
});

test("a range is rounded outwards, so that a value on its edge stays in it", () => {
  const value = 2 / 3;
  const brush = parseBrushes(brushesText(new Map([["x", { from: value, to: value }]]))).get("x");
  assert.ok(brush !== undefined && "from" in brush);
  assert.ok(brush.from <= value && value <= brush.to);
  assert.ok(brush.to - brush.from < 0.001);
});

test("ranges without a key or a value are ignored, and a broken percent code is kept as text", () => {
  for (const nonsense of ["", "x", "x:", ":1..2", ","]) assert.equal(parseBrushes(nonsense).size, 0, nonsense);
  assert.deepEqual(parseBrushes("x:%E0%A4%A").get("x"), { texts: ["%E0%A4%A"] });
});

test("a job without a value is outside of a range, and inside if no range is set", () => {
  const without = job("a");
  const brushes = new Map([["model.name", { texts: ["lenet5"] }]]);
  assert.equal(isWithin(job("b", { spec: { model: "lenet5" } }), [model], brushes), true);
  assert.equal(isWithin(job("c", { spec: { model: "mlp" } }), [model], brushes), false);
  assert.equal(isWithin(without, [model], brushes), false);
  assert.equal(isWithin(without, [model], new Map()), true);
});

test("a brush can be put on an axis and removed", () => {
  const drawn = withBrush(new Map(), "x", { from: 1, to: 2 });
  assert.deepEqual([...drawn], [["x", { from: 1, to: 2 }]]);
  assert.equal(withBrush(drawn, "x", null).size, 0);
});
