import assert from "node:assert/strict";
import { test } from "node:test";
import { curveLines } from "./curve_lines.ts";
import { cell, report, SCALING } from "./study.fixture.ts";

const NONE: ReadonlySet<string> = new Set();
const curve = (repeats = 3) => ({ repeats, epoch: [1, 2], mean: [0.5, null], low: [0.4, null], high: [0.6, null] });

test("each cell with a curve has a line in its own colour, with a spread and gaps", () => {
  const lines = curveLines(SCALING, [curve(), null, curve(1), null], NONE);
  assert.deepEqual(
    lines.map(({ key, name, colour }) => [key, name, colour]),
    [
      ["0", "GPUs 1, batch size 32", "run-0"],
      ["2", "GPUs 2, batch size 32", "run-2"],
    ],
  );
  assert.deepEqual([...((lines[0]?.ys ?? []) as Float64Array)], [0.5, Number.NaN]);
  assert.deepEqual([...((lines[0]?.spread?.high ?? []) as Float64Array)], [0.6, Number.NaN]);
  assert.equal(lines[1]?.spread, undefined, "one repeat has no range");
});

test("many cells have no spreads until all but a few are hidden", () => {
  const cells = Array.from({ length: 9 }, (_, seed) => cell({ seed }));
  const curves = cells.map(() => curve());
  const spreads = (hidden: ReadonlySet<string>) =>
    curveLines(report(cells), curves, hidden).filter(({ spread }) => spread !== undefined).length;
  assert.equal(spreads(NONE), 0);
  assert.equal(spreads(new Set(["4"])), 9);
});
