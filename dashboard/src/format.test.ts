import assert from "node:assert/strict";
import { test } from "node:test";
import {
  ago,
  bytes,
  commandText,
  countText,
  duration,
  fileStem,
  gpuTime,
  number,
  percent,
  secondsBetween,
  short,
  UNKNOWN,
  words,
} from "./format.ts";

test("a number is shown with about four significant digits", () => {
  assert.equal(number(0.931249), "0.9312");
  assert.equal(number(0.001), "0.001");
  assert.equal(number(1.23456e-7), "1.23e-7");
  assert.equal(number(12345), "12,345");
  assert.equal(number(12345.678), "12,346");
  assert.equal(number(0), "0");
});

test("an unknown value is shown as a dash, never as 0", () => {
  for (const format of [number, short, percent, duration, bytes]) {
    for (const value of [null, undefined, Number.NaN, Number.POSITIVE_INFINITY]) assert.equal(format(value), UNKNOWN);
  }
  assert.equal(ago(null), UNKNOWN);
  assert.equal(secondsBetween(null, null), null);
});

test("counts of 10,000 and more are shortened", () => {
  assert.equal(short(9_999), "9,999");
  assert.equal(short(12_345), "12.3K");
});

test("the noun of a count is singular for 1 and plural otherwise", () => {
  assert.equal(countText(1, "job"), "1 job");
  assert.equal(countText(12_000, "job"), "12,000 jobs");
  assert.equal(countText(0, "run"), "0 runs");
});

test("a duration shows at most its two greatest units", () => {
  assert.equal(duration(0.4234), "0.42 s");
  assert.equal(duration(59.6), "1 min");
  assert.equal(duration(200), "3 min 20 s");
  assert.equal(duration(7500), "2 h 5 min");
  assert.equal(duration(3 * 86_400), "3 d");
});

test("bytes are shown in binary units", () => {
  assert.equal(bytes(0), "0 B");
  assert.equal(bytes(1023), "1,023 B");
  assert.equal(bytes(1.5 * 2 ** 30), "1.5 GiB");
  assert.equal(bytes(81_559 * 2 ** 20), "79.6 GiB");
});

test("a time without an end lasts until now", () => {
  const from = "2030-01-01T00:00:00Z";
  assert.equal(secondsBetween(from, "2030-01-01T00:01:00Z"), 60);
  assert.equal(secondsBetween(from, null, Date.parse("2030-01-01T00:02:00Z")), 120);
  assert.equal(ago(from, Date.parse("2030-01-01T03:02:00Z")), "3 h ago");
});

test("a name of the api is shown with spaces instead of underscores", () => {
  assert.equal(words("rank_failed"), "rank failed");
});

test("any name in any script becomes a safe file name of at most 60 characters", () => {
  assert.equal(fileStem("chips 8 gpu"), "chips-8-gpu");
  assert.equal(fileStem("Zoë 訓練"), "Zoë-訓練");
  assert.equal(fileStem("../../etc/passwd"), "etc-passwd");
  assert.equal(fileStem('it\'s <ok>: "a|b"?'), "it-s-ok-a-b");
  assert.equal(fileStem("👩‍🔬"), "unnamed");
  assert.equal([...fileStem("訓".repeat(128))].length, 60);
});

test("a shell reads a command as it was, whatever its arguments contain", () => {
  assert.equal(
    commandText(["python", "-m", "train", "--lr=0.1", "a/b:c,d@e%f+g"]),
    "python -m train --lr=0.1 a/b:c,d@e%f+g",
  );
  assert.equal(commandText(["--lr", "{params.lr}", "{a,b}"]), "--lr '{params.lr}' '{a,b}'");
  assert.equal(commandText(["", "two words", "it's", "~", "ü"]), `'' 'two words' 'it'"'"'s' '~' 'ü'`);
});

test("GPU time has the unit that suits it, as on the command line", () => {
  const texts = [null, 0, 8.6e-5, 0.00512, 1 / 60, 0.0823, 1, 12.34, 1234.6].map(gpuTime);
  assert.deepEqual(texts, ["–", "0 s", "0.31 s", "18.4 s", "1 min", "4.94 min", "1 h", "12.3 h", "1,235 h"]);
});
