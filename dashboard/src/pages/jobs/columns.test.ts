import assert from "node:assert/strict";
import { test } from "node:test";
import { COLUMNS, chosenColumns, columnsOf, commonMetric, defaultColumns, metricColumns } from "./columns.ts";
import { rowWith } from "./row.fixture.ts";

const VALUE = { last: 1, best: 1 };

test("a wide page shows more columns than a narrow one, in the same order", () => {
  const narrow = defaultColumns(800);
  const wide = defaultColumns(1440);
  assert.deepEqual(narrow, ["status", "name", "progress", "created"]);
  assert.deepEqual(
    wide.filter((id) => narrow.includes(id)),
    narrow,
  );
  assert.ok(wide.includes("throughput") && !wide.includes("project"));
});

test("the default columns fit the width of the page", () => {
  for (const page_px of [760, 860, 950, 1060, 1120, 1190, 1260, 1340, 1440]) {
    const shown = columnsOf(defaultColumns(page_px), "val_accuracy");
    const width_px = shown.reduce((sum, column) => sum + column.width_px, 38 + 2 * 16 + 15);
    assert.ok(width_px <= page_px, `${width_px} px of columns on a page of ${page_px} px`);
  }
});

test("chosen columns are in the order of the table and include the name", () => {
  assert.deepEqual(chosenColumns("owner,status"), ["status", "name", "owner"]);
});

test("an empty or unknown stored choice counts as no choice", () => {
  assert.equal(chosenColumns(null), null);
  assert.equal(chosenColumns(""), null);
  assert.equal(chosenColumns("colour"), null);
});

test("the best value of one metric sorts, but not that of each job's goal", () => {
  const sortOf = (metric: string) => columnsOf(["best"], metric)[0]?.sort;
  assert.equal(sortOf("val_loss"), "val_loss");
  assert.equal(sortOf("val_accuracy"), "val_accuracy");
  assert.equal(sortOf("val_mae"), "metrics.val_mae");
  assert.equal(sortOf(""), undefined);
});

test("the curve column is titled with its metric", () => {
  assert.equal(columnsOf(["name", "curve"], "loss")[1]?.title, "loss");
  assert.equal(columnsOf(["name", "curve"], "")[1]?.title, "Goal");
});

test("the ids of the columns are unique", () => {
  assert.equal(new Set(COLUMNS.map(({ id }) => id)).size, COLUMNS.length);
});

test("there is a column for each metric of the rows, and a chosen one stays when no row has it", () => {
  const rows = [rowWith({ metrics: { val_mae: VALUE, loss: VALUE } }), rowWith({ metrics: { loss: VALUE } })];
  assert.deepEqual(metricColumns(rows, ["name", "metrics.wer"]), ["metrics.wer", "metrics.loss", "metrics.val_mae"]);
  assert.deepEqual(chosenColumns("metrics.val_mae,name"), ["name", "metrics.val_mae"]);
  const [, column] = columnsOf(["name", "metrics.val_mae"], "");
  assert.deepEqual([column?.title, column?.sort], ["val_mae", "metrics.val_mae"]);
});

test("rows have a common metric if it counts for all that have one", () => {
  const rows = ["val_mae", null, "val_mae"].map((goal_metric) => rowWith({ goal_metric }));
  assert.equal(commonMetric(rows, ""), "val_mae");
  assert.equal(commonMetric([...rows, rowWith({ goal_metric: "wer" })], ""), "");
  assert.equal(commonMetric(rows, "loss"), "loss");
});
