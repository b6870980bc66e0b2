import assert from "node:assert/strict";
import { test } from "node:test";
import { tokensOf } from "./tokens.ts";

const lighted = (path: string, text: string): string[] =>
  tokensOf(path, text).flatMap(([piece, kind]) => (kind === null || piece === "" ? [] : [`${kind}: ${piece}`]));

test("comments, quotes and keywords are told apart, and the text stays whole", () => {
  const text = `def f(a):\n    """It's # no comment."""\n    return "\\"#" if a else 'x'  # "a" comment\n`;
  assert.deepEqual(lighted("a.py", text), [
    "keyword: def",
    `quote: """It's # no comment."""`,
    "keyword: return",
    `quote: "\\"#"`,
    "keyword: if",
    "keyword: else",
    "quote: 'x'",
    `comment: # "a" comment`,
  ]);
  assert.equal(
    tokensOf("a.py", text)
      .map(([piece]) => piece)
      .join(""),
    text,
  );
  assert.deepEqual(lighted("README.md", "don't import # that"), []);
});
