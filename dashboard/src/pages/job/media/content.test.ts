import assert from "node:assert/strict";
import { test } from "node:test";
import { linesOf, matrixOf, tableOf } from "./content.ts";

test("a histogram is drawn as its outline", () => {
  const { xName, yName, lines } = linesOf({ counts: [1, 3], edges: [0, 1, 2] });
  assert.deepEqual([xName, yName], ["value", "count"]);
  assert.deepEqual(
    lines.map(({ xs, ys }) => [xs, ys]),
    [
      [
        [0, 0, 1, 1, 2, 2],
        [0, 1, 1, 3, 3, 0],
      ],
    ],
  );
});

test("a curve has its lines, and gaps where a value is none", () => {
  const { xName, lines } = linesOf({
    x_name: "recall",
    y_name: "precision",
    lines: [
      { name: "cat", x: [0, 1], y: [null, 0.5] },
      { name: "dog", x: [0], y: [1] },
    ],
  });
  assert.equal(xName, "recall");
  assert.deepEqual(
    lines.map(({ name, ys }) => [name, ys]),
    [
      ["cat", [Number.NaN, 0.5]],
      ["dog", [1]],
    ],
  );
});

test("a cell of a matrix knows its share of the row", () => {
  const { columns, rows } = matrixOf({ labels: ["a", "b"], counts: [[3, 1]] });
  assert.deepEqual(columns, ["Truth \\ predicted", "a", "b"]);
  assert.deepEqual(rows[0], [{ text: "a" }, { text: "3", share: 0.75 }, { text: "1", share: 0.25 }]);
});

test("of very many classes the pairs that are confused most come first", () => {
  const labels = Array.from({ length: 50 }, (_, i) => `c${i}`);
  const counts = labels.map((_, i) =>
    labels.map((_, j) => (i === j ? 9 : i === 3 && j === 4 ? 2 : i === 5 && j === 0 ? 7 : 0)),
  );
  assert.deepEqual(
    matrixOf({ labels, counts }).rows.map((row) => row.map(({ text }) => text)),
    [
      ["c5", "c0", "7"],
      ["c3", "c4", "2"],
    ],
  );
});

test("a file that a script wrote in its own way breaks nothing", () => {
  for (const content of [
    null,
    5,
    "x",
    [],
    {},
    { lines: [null, 1, { x: 3 }], rows: [null, 1], columns: 7, labels: [{}] },
  ]) {
    linesOf(content);
    tableOf(content);
    matrixOf(content);
  }
  assert.deepEqual(
    tableOf({ columns: ["a"], rows: [[null], [true], [{}]] })
      .rows.flat()
      .map(({ text }) => text),
    ["–", "true", "[object Object]"],
  );
});
