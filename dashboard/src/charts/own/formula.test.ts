import assert from "node:assert/strict";
import { test } from "node:test";
import { FormulaError, formulaOf } from "./formula.ts";

const VALUES: Readonly<Record<string, number>> = { a: 6, b: 3, "train/loss": 0.5, "val-loss": 0.75, "0": 9, é_1: 2 };

function worth(text: string): number {
  return formulaOf(text).value((name) => VALUES[name] ?? Number.NaN);
}

test("operators bind as in mathematics", () => {
  const values: Readonly<Record<string, number>> = {
    "a - b - 1": 2,
    "a - (b - 1)": 4,
    "a / b / 2": 1,
    "a + b * 2": 12,
    "(a + b) * 2": 18,
    "2*a": 12,
    "-b ^ 2": -9,
    "2 ^ -1": 0.5,
    "2 ^ b ^ 2": 512,
    "a - -b": 9,
    "1.5e1 + .5": 15.5,
    "5.": 5,
  };
  for (const [text, value] of Object.entries(values)) assert.equal(worth(text), value, text);
});

test("functions take values, min and max any number of them", () => {
  assert.equal(worth("log10(100) + sqrt(abs(-4)) + log(exp(1))"), 5);
  assert.equal(worth("max(a, b * 3, 1) - min(a, b)"), 6);
});

test("names may have slashes and any letters; others stand in quotes", () => {
  assert.equal(worth("1 - train/loss"), 0.5);
  assert.equal(worth("a / b"), 2);
  assert.equal(worth('"val-loss" - train/loss'), 0.25);
  assert.equal(worth('"0" / é_1'), 4.5);
  assert.deepEqual(formulaOf('a * max(b, "val-loss") + a').names, ["a", "b", "val-loss"]);
});

test("what cannot be computed is no number, and raises nothing", () => {
  assert.equal(worth("missing + 1"), Number.NaN);
  assert.equal(worth("log(0 - a)"), Number.NaN);
  assert.equal(worth("a / 0"), Number.POSITIVE_INFINITY);
});

test("an error says what is wrong and where", () => {
  const messages: Readonly<Record<string, string>> = {
    "loss -": "a value is missing before the end",
    "": "a value is missing before the end",
    "loss + * 2": "a value is missing before “*” at character 8",
    "(loss + 1": "a “)” is missing before the end",
    "log(loss, 2)": "a “)” is missing before “,” at character 9",
    "loss 2": "an operator is missing before “2” at character 6",
    "2 loss": "an operator is missing before “loss” at character 3",
    "loss)": "an operator is missing before “)” at character 5",
    'loss + "val': 'a value is missing before “"” at character 8',
    "sin(loss)": "no function is called “sin”; there are log, log10, exp, sqrt, abs, min, max",
    "constructor(loss)": "no function is called “constructor”; there are log, log10, exp, sqrt, abs, min, max",
  };
  for (const [text, message] of Object.entries(messages))
    assert.throws(
      () => formulaOf(text),
      (error) => error instanceof FormulaError && error.message === message,
      text,
    );
});
