import assert from "node:assert/strict";
import { test } from "node:test";
import { type Field, RESULTS } from "./fields.ts";
import { job } from "./job.fixture.ts";
import { runsOf } from "./runs.ts";
import { bestValues, csvOfRuns, differenceFrom, nextSort, parseSort, sortedRuns } from "./table.ts";

const accuracy = RESULTS.find(({ key }) => key === "val_accuracy") as Field;
const loss = RESULTS.find(({ key }) => key === "val_loss") as Field;

const jobs = new Map([0.5, 0.9, 0.7].map((val_accuracy, i) => [`j${i}`, job(`j${i}`, { summary: { val_accuracy } })]));
const runs = runsOf([...jobs.keys()], jobs, RESULTS, { hidden: new Set(), best: null });

test("the first click sorts the best on top, the second the worst, and the third removes the sort", () => {
  assert.equal(nextSort(null, accuracy), "-val_accuracy");
  assert.equal(nextSort(parseSort("-val_accuracy"), accuracy), "val_accuracy");
  assert.equal(nextSort(parseSort("val_accuracy"), accuracy), "");
  assert.equal(nextSort(parseSort("-val_accuracy"), loss), "val_loss");
});

test("runs are sorted by a known column, and otherwise keep their order", () => {
  const ids = (sort: string): string[] => sortedRuns(runs, RESULTS, parseSort(sort)).map(({ id }) => id);
  assert.deepEqual(ids("-val_accuracy"), ["j1", "j2", "j0"]);
  assert.deepEqual(ids("val_accuracy"), ["j0", "j2", "j1"]);
  assert.deepEqual(ids(""), ["j0", "j1", "j2"]);
  assert.deepEqual(ids("no_such_column"), ["j0", "j1", "j2"]);
});

test("each column has its best value, or null without values", () => {
  assert.equal(bestValues([accuracy, loss], [...jobs.values()]).get("val_accuracy"), 0.9);
  assert.equal(bestValues([accuracy, loss], [...jobs.values()]).get("val_loss"), null);
});

test("a result differs from the baseline for the better or for the worse", () => {
  const baseline = job("a", { summary: { val_accuracy: 0.5, val_loss: 2, best_epoch: 3 } });
  const other = job("b", { summary: { val_accuracy: 0.512, val_loss: 2.5, best_epoch: 2 } });
  const epoch = RESULTS.find(({ key }) => key === "best_epoch") as Field;
  const difference = (field: Field, of = other) => differenceFrom(baseline, of, field);
  assert.deepEqual(difference(accuracy), { text: "+0.012", isBetter: true });
  assert.deepEqual(difference(loss), { text: "+0.5", isBetter: false });
  assert.deepEqual(difference(epoch), { text: "-1", isBetter: null });
  assert.deepEqual(difference(loss, baseline), { text: "±0", isBetter: null });
  assert.equal(difference(loss, job("c")), null);
});

test("the file of the table has exact values", () => {
  const [first] = runsOf(["a"], new Map([["a", job("a", { summary: { val_accuracy: 0.123456789 } })]]), RESULTS, {
    hidden: new Set(),
    best: null,
  });
  const [head, row] = csvOfRuns(first ? [first] : [], [accuracy, loss]).split("\r\n");
  assert.equal(head, "\ufeffrun,id,name,status,val accuracy,val loss");
  assert.match(row as string, /^1,a,a,.*,0.123456789,$/);
});
