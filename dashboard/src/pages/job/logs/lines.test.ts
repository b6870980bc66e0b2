import assert from "node:assert/strict";
import { test } from "node:test";
import type { LogLine } from "../../../api/types.ts";
import {
  CUT,
  indexOfId,
  lastWords,
  lineAtRow,
  matchesOf,
  piecesOf,
  plain,
  rowStarts,
  timeLengthOf,
  timeOf,
  withNewer,
  withOlder,
} from "./lines.ts";

const line = (id: number, text = ""): LogLine => ({ id, text, at: "", attempt: 1, level: "info", rank: 0 });
const ids = (lines: readonly LogLine[]): number[] => lines.map(({ id }) => id);

test("terminal codes and overwritten text are removed from a line", () => {
  assert.equal(plain("\u001b[1;31mred\u001b[0m and \u001b]0;title\u0007plain"), "red and plain");
  assert.equal(plain(" 10%\r 50%\r100%\r"), "100%");
  assert.equal(plain("a\tb\u0000c\u202ed"), "a    b\ufffdc\ufffdd");
});

test("pages of lines are joined without repeats", () => {
  const lines = [line(3), line(4)];
  assert.deepEqual(ids(withNewer(lines, [line(4), line(7)])), [3, 4, 7]);
  assert.deepEqual(ids(withOlder(lines, [line(1), line(3)])), [1, 3, 4]);
  assert.equal(withNewer(lines, [line(4)]), lines);
  assert.equal(withOlder(lines, []), lines);
});

test("a line is found by its id; if it is missing, the next line is found", () => {
  const lines = [line(2), line(5), line(9)];
  assert.deepEqual(
    [1, 2, 5, 6, 10].map((id) => indexOfId(lines, id)),
    [0, 0, 1, 2, 3],
  );
});

test("long lines take as many rows as they need", () => {
  const lines = [line(1, ""), line(2, "x".repeat(25)), line(3, "y")];
  const starts = rowStarts(lines, 10, new Set());
  assert.deepEqual([...starts], [0, 1, 4, 5]);
  assert.deepEqual(
    [0, 1, 3, 4].map((row) => lineAtRow(starts, row)),
    [0, 1, 1, 2],
  );
  assert.deepEqual([...rowStarts(lines, Number.POSITIVE_INFINITY, new Set())], [0, 1, 2, 3]);
});

test("a wide character takes two columns and is not split between rows", () => {
  assert.deepEqual([...rowStarts([line(1, "漢".repeat(9)), line(2, "é█".repeat(5))], 10, new Set())], [0, 2, 3]);
  assert.equal(rowStarts([line(1, "漢".repeat(9))], 9, new Set())[1], 3);
});

test("a line that is too long is cut until it is opened", () => {
  const lines = [line(1, "x".repeat(CUT + 50))];
  assert.equal(rowStarts(lines, 100, new Set())[1], CUT / 100 + 1);
  assert.equal(rowStarts(lines, 100, new Set([1]))[1], CUT / 100 + 1);
  assert.equal(rowStarts(lines, 10, new Set([1]))[1], CUT / 10 + 5);
});

test("a search ignores case and has no wildcards", () => {
  const lines = [line(1, "Loss is NaN"), line(2, "fine"), line(3, "nan.")];
  assert.deepEqual(matchesOf(lines, "nan"), [0, 2]);
  assert.deepEqual(matchesOf(lines, "."), [2]);
  assert.deepEqual(matchesOf(lines, ""), []);
});

test("a text is split at matches, so that every second piece is a match", () => {
  assert.deepEqual(piecesOf("Loss nan, NAN", "nan"), ["Loss ", "nan", ", ", "NAN", ""]);
  assert.deepEqual(piecesOf("fine", ""), ["fine"]);
  assert.deepEqual(piecesOf("İstanbul nan", "nan"), ["İstanbul nan"]);
});

test("a failure shows the ranks' last lines, or all last lines if the launch failed or no rank printed", () => {
  const printed = (id: number, rank: number): LogLine => ({ ...line(id, "words"), rank });
  const lines = [printed(1, 0), printed(2, 1), printed(3, -1), line(4, " ")];
  assert.deepEqual(ids(lastWords(lines, false, 2)), [1, 2]);
  assert.deepEqual(ids(lastWords(lines, false, 1)), [2]);
  assert.deepEqual(ids(lastWords(lines, true, 9)), [1, 2, 3]);
  assert.deepEqual(ids(lastWords([printed(3, -1)], false, 9)), [3]);
});

test("lines begin with their time, and with the day only if they are of several days", () => {
  const at = (day: number): LogLine => ({ ...line(day, "words"), at: new Date(2026, 10, day, 9, 5, 7).toISOString() });
  assert.equal(timeOf(at(3).at, timeLengthOf([at(3), at(3)])), "09:05:07 ");
  assert.equal(timeOf(at(3).at, timeLengthOf([at(3), at(5)])), "11-03 09:05:07 ");
});
