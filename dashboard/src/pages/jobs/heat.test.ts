import assert from "node:assert/strict";
import { test } from "node:test";
import { tint } from "../../charts/ramp.ts";
import { extentsOf, heatOf } from "./heat.ts";
import { rowWith } from "./row.fixture.ts";

const value = (best: number) => ({ last: 9, best });
const ROWS = [
  rowWith({ cost: 1, metrics: { val_loss: value(2), val_iou: value(0.5) } }),
  rowWith({ cost: null, metrics: { val_loss: value(4) } }),
  rowWith({ cost: 5, metrics: { val_loss: value(3), val_iou: value(0.7) } }),
];

test("a heat map goes from the least to the greatest number of the rows", () => {
  const ids = ["cost", "best", "metrics.val_loss", "owner", "created", "curve"];
  assert.deepEqual(extentsOf(ROWS, ids, "val_iou"), { cost: [1, 5], best: [0.5, 0.7], "metrics.val_loss": [2, 4] });
});

test("the better values of a metric are stronger, and of other figures the greater ones", () => {
  const colours = (id: string, extent: [number, number]) => ROWS.map((row) => heatOf(row, id, "", extent));
  assert.deepEqual(colours("metrics.val_loss", [2, 4]), [tint(1), tint(0), tint(0.5)]);
  assert.deepEqual(colours("cost", [1, 5]), [tint(0), undefined, tint(1)]);
});
