import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type Choice,
  COLUMNS,
  choiceOf,
  columnsOf,
  commonMetric,
  defaultColumns,
  heatToggled,
  MOST_COLUMNS,
  metricColumns,
  moved,
  pinToggled,
  resized,
  storedChoice,
  toggled,
} from "./columns.ts";
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

test("a choice has the sequence in which the columns were chosen, and includes the name", () => {
  assert.deepEqual(choiceOf(["owner", "spec.optimizer.name", "owner", "status"])?.ids, [
    "name",
    "owner",
    "spec.optimizer.name",
    "status",
  ]);
  assert.deepEqual(choiceOf(["status", "label.team"])?.ids, ["status", "name", "label.team"]);
});

test("an empty or unknown stored choice counts as no choice", () => {
  for (const stored of [null, "", "colour", "{", "{}", '{"ids":[3,"colour",null,"spec.","x.y"]}'])
    assert.equal(storedChoice(stored), null);
});

test("a stored choice comes back, also one of an earlier version", () => {
  const choice: Choice = { ids: ["owner", "name", "last.val_loss"], pinned: ["owner"] };
  assert.deepEqual(storedChoice(JSON.stringify(choice)), choice);
  assert.deepEqual(storedChoice("owner,status"), { ids: ["status", "name", "owner"], pinned: [] });
});

test("a table has a limited number of columns", () => {
  const many = Array.from({ length: 500 }, (_, i) => `spec.params.p${i}`);
  const choice = choiceOf(["name", ...many]) as Choice;
  assert.equal(choice.ids.length, MOST_COLUMNS);
  assert.equal(toggled(choice, "owner").ids.length, MOST_COLUMNS);
});

const CHOICE: Choice = { ids: ["status", "name", "owner", "gpus"], pinned: [] };

test("columns are shown at the end, and hidden", () => {
  assert.deepEqual(toggled(CHOICE, "cell").ids, ["status", "name", "owner", "gpus", "cell"]);
  assert.deepEqual(toggled(pinToggled(CHOICE, "owner"), "owner"), { ids: ["status", "name", "gpus"], pinned: [] });
});

test("pinned columns come first, and no move takes one behind another column", () => {
  const pinned = pinToggled(pinToggled(CHOICE, "owner"), "name");
  assert.deepEqual(pinned, { ids: ["owner", "name", "status", "gpus"], pinned: ["owner", "name"] });
  assert.deepEqual(moved(pinned, "owner", 3).ids, ["name", "owner", "status", "gpus"]);
  assert.deepEqual(moved(pinned, "gpus", 0).ids, ["owner", "name", "gpus", "status"]);
  assert.deepEqual(pinToggled(pinned, "owner").ids, ["name", "owner", "status", "gpus"]);
});

test("a choice keeps widths and heat maps of shown columns, and equal choices have the same JSON", () => {
  const one = heatToggled(resized(resized(CHOICE, "owner", 5), "gpus", 90.4), "gpus");
  const other = resized(resized(heatToggled(CHOICE, "gpus"), "gpus", 90), "owner", 40);
  assert.deepEqual(one, { ...CHOICE, widths: { gpus: 90, owner: 40 }, heat: ["gpus"] });
  assert.equal(JSON.stringify(one), JSON.stringify(other));
  assert.deepEqual(storedChoice(JSON.stringify(one)), one);
  assert.deepEqual(moved(toggled(one, "owner"), "gpus", 0).widths, { gpus: 90 });
  assert.deepEqual(heatToggled(resized(resized(one, "owner", null), "gpus", null), "gpus"), CHOICE);
  for (const look of ['"widths":3,"heat":{}', '"widths":{"name":"wide","cell":9},"heat":["cell"]'])
    assert.deepEqual(storedChoice(`{"ids":["name"],${look}}`), { ids: ["name"], pinned: [] });
});

test("a column moves to the left and to the right, and not beyond the ends", () => {
  assert.deepEqual(moved(CHOICE, "owner", 0).ids, ["owner", "status", "name", "gpus"]);
  assert.deepEqual(moved(CHOICE, "status", 2).ids, ["name", "owner", "status", "gpus"]);
  assert.deepEqual(moved(CHOICE, "gpus", 9), CHOICE);
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
  const [, column] = columnsOf(["name", "metrics.val_mae"], "");
  assert.deepEqual([column?.title, column?.sort], ["val_mae", "metrics.val_mae"]);
});

test("rows have a common metric if it counts for all that have one", () => {
  const rows = ["val_mae", null, "val_mae"].map((goal_metric) => rowWith({ goal_metric }));
  assert.equal(commonMetric(rows, ""), "val_mae");
  assert.equal(commonMetric([...rows, rowWith({ goal_metric: "wer" })], ""), "");
  assert.equal(commonMetric(rows, "loss"), "loss");
});
