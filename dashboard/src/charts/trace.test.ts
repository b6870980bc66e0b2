import assert from "node:assert/strict";
import { test } from "node:test";
import { type Pen, trace } from "./trace.ts";

class Recorder implements Pen {
  readonly moves: [number, number][] = [];
  readonly lines: [number, number][] = [];
  readonly bars: [x: number, from: number, to: number][] = [];

  moveTo(x: number, y: number): void {
    this.moves.push([x, y]);
  }

  lineTo(x: number, y: number): void {
    this.lines.push([x, y]);
  }

  bar(x: number, from: number, to: number): void {
    this.bars.push([x, from, to]);
  }
}

const same = (value: number): number => value;

function traced(xs: ArrayLike<number>, ys: ArrayLike<number>, toX = same, width = 1): Recorder {
  const pen = new Recorder();
  trace(xs, ys, [0, xs.length], toX, same, width, pen);
  return pen;
}

test("points that each have their own column are joined by lines", () => {
  const pen = traced([0, 10, 20], [1, 2, 3]);
  assert.deepEqual(pen.moves, [[0, 1]]);
  assert.deepEqual(pen.lines.slice(-2), [
    [10, 2],
    [20, 3],
  ]);
  assert.deepEqual(pen.bars, []);
});

test("drawing 100,000 points takes a few calls a column, and no spike is lost", () => {
  const count = 100_000;
  const columns = 800;
  const xs = Float64Array.from({ length: count }, (_, i) => i);
  for (const at of [0, 1, 333, 33_333, 99_998, count - 1]) {
    const ys = Float64Array.from(xs, (x) => 100 + (x % 7));
    ys[at] = 5000;
    const pen = traced(xs, ys, (x) => (x / count) * columns);
    assert.ok(pen.moves.length + pen.lines.length + pen.bars.length <= 4 * (columns + 1));
    assert.equal(Math.max(...pen.bars.map(([, , to]) => to)), 5000, `a spike at ${at}`);
  }
});

test("neighbouring bars are extended until they meet, so the line has no gap", () => {
  const pen = traced([0, 0.1, 0.2, 1, 1.1, 1.2], [0, 10, 0, 40, 50, 40]);
  assert.deepEqual(pen.bars, [
    [0, 0, 20],
    [1, 20, 50],
  ]);
});

test("a line goes from a bar's last point to the next distant point", () => {
  const pen = traced([0, 0.1, 0.2, 9], [0, 10, 4, 7]);
  assert.deepEqual(pen.bars, [[0, 0, 10]]);
  assert.deepEqual(pen.moves.at(-1), [0, 4]);
  assert.deepEqual(pen.lines.at(-1), [9, 7]);
});

test("points of a column that hardly differ become one point, not a bar", () => {
  const pen = traced([0, 0.1, 5], [1, 2, 1]);
  assert.deepEqual(pen.bars, []);
  assert.deepEqual(pen.moves, [[0, 1.5]]);
});

test("a gap breaks the line, and a point between two gaps is a dot", () => {
  const pen = traced([0, 10, 20, 30, 40], [1, Number.NaN, 5, Number.NaN, 2]);
  assert.deepEqual(pen.moves, [
    [0, 1],
    [20, 5],
    [40, 2],
  ]);
  assert.deepEqual(pen.lines, pen.moves);
});

test("a bar before a gap is drawn, and not joined to the points after the gap", () => {
  const pen = traced([0, 0.1, 0.2, 1, 1.1], [0, 10, Number.NaN, 40, 50]);
  assert.deepEqual(pen.bars, [
    [0, 0, 10],
    [1, 40, 50],
  ]);
});

test("points are grouped in columns of the given width", () => {
  const pen = traced([0, 1, 2, 3], [0, 10, 20, 30], same, 2);
  assert.deepEqual(
    pen.bars.map(([x]) => x),
    [2],
  );
});

test("only the points in view are drawn", () => {
  const pen = new Recorder();
  trace([0, 10, 20, 30], [1, 2, 3, 4], [1, 3], same, same, 1, pen);
  assert.deepEqual(pen.moves, [[10, 2]]);
  assert.deepEqual(pen.lines.at(-1), [20, 3]);
});
