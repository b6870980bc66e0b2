import assert from "node:assert/strict";
import { test } from "node:test";
import { ownChartOf, textOf } from "./own_chart.ts";

test("a chart reads back as it was written", () => {
  for (const text of ["||loss", "y|Gap|loss - val_loss", "xy|A, b|/a|b/, min(a, b)"])
    assert.equal(textOf(ownChartOf(text)), text);
  const chart = { list: "/a|b/", title: "x|y", isLog: false, isLogX: true };
  assert.deepEqual(ownChartOf(textOf(chart)), { ...chart, title: "x y" });
});

test("a text that a person typed into the address may be the list alone", () => {
  for (const list of ["loss*", "/a|b|c/"])
    assert.deepEqual(ownChartOf(list), { list, title: "", isLog: false, isLogX: false });
});
