import assert from "node:assert/strict";
import { test } from "node:test";
import type { VNode } from "preact";
import { isOfWeb, nodesOf } from "./markdown_nodes.ts";

interface Element {
  readonly name: string;
  readonly props: Readonly<Record<string, unknown>>;
}

/** All elements below a node, and its text. */
function read(node: unknown): { elements: Element[]; text: string } {
  if (node === null || node === undefined || typeof node === "boolean") return { elements: [], text: "" };
  if (typeof node === "string" || typeof node === "number") return { elements: [], text: String(node) };
  if (Array.isArray(node)) {
    const parts = node.map(read);
    return { elements: parts.flatMap(({ elements }) => elements), text: parts.map(({ text }) => text).join("") };
  }
  const { type, props } = node as VNode<{ children?: unknown }>;
  const { children, ...others } = props;
  const below = read(children);
  return typeof type === "string" ? { ...below, elements: [{ name: type, props: others }, ...below.elements] } : below;
}

const shown = (text: string) => read(nodesOf(text));
const names = (text: string): string[] => shown(text).elements.map(({ name }) => name);

test("Markdown becomes elements", () => {
  assert.deepEqual(names("# Why\n\nIt *diverged* in **epoch 9**, `lr=1`.\n\n---\n"), [
    "h3",
    "p",
    "em",
    "strong",
    "code",
    "hr",
  ]);
  assert.deepEqual(names("###### deep"), ["h6"]);
  assert.deepEqual(names("3. a\n4. b"), ["ol", "li", "li"]);
  assert.equal(shown("3. a\n4. b").elements[0]?.props["start"], 3);
  assert.deepEqual(names("- [x] done\n- [ ] open"), ["ul", "li", "input", "li", "input"]);
  assert.deepEqual(names("> said"), ["blockquote", "p"]);
  assert.deepEqual(names("```py\nx = 1\n```"), ["pre", "code"]);
  assert.deepEqual(names("| a | b |\n|--:|---|\n| 1 | 2 |"), "div table thead tr th th tbody tr td td".split(" "));
  assert.equal(shown("a &lt; b & c \\*d\\*").text, "a < b & c *d*");
});

const HOSTILE = [
  "<script>alert(1)</script>",
  "<img src=x onerror=alert(1)>",
  "a <b onmouseover=alert(1)>b</b>",
  "<svg><a xlink:href='javascript:alert(1)'>x</a></svg>",
  "<iframe src=https://example.com></iframe>\n\n<style>*{display:none}</style>",
  "<!-- <img src=x> -->",
  "<a href='javascript:alert(1)'>x</a>",
];

test("HTML is shown as it was written", () => {
  for (const text of HOSTILE) {
    const { elements, text: written } = shown(text);
    assert.deepEqual(
      elements.filter(({ name }) => name !== "p"),
      [],
      text,
    );
    assert.equal(written.replaceAll("\n", ""), text.replaceAll("\n", ""));
  }
});

test("only links to the web are links, and nothing is loaded", () => {
  const links = [
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](java&#10;script:alert(1))",
    "[x](data:text/html,x)",
    "[x](vbscript:x)",
    "[x](file:///etc/passwd)",
    "[x](//example.com)",
    "[x](/v1/jobs)",
    "[x](#top)",
    "<javascript:alert(1)>",
    "[x](blob:https://example.com/1)",
    "![x](javascript:alert(1))",
    "[x][y]\n\n[y]: javascript:alert(1)",
    "[x](\u0001javascript:alert(1))",
  ];
  for (const text of links) assert.deepEqual(names(text), ["p"], text);
  const good = shown(
    '[x](https://example.com/a?b=c "title") and https://example.org and ![alt](https://example.net/i.png)',
  );
  assert.deepEqual(
    good.elements.map(({ name, props }) => [name, props["href"], props["rel"]]),
    [
      ["p", undefined, undefined],
      ["a", "https://example.com/a?b=c", "noopener noreferrer nofollow"],
      ["a", "https://example.org", "noopener noreferrer nofollow"],
      ["a", "https://example.net/i.png", "noopener noreferrer nofollow"],
    ],
  );
  assert.deepEqual([isOfWeb("HTTPS://example.com"), isOfWeb("ftp://example.com"), isOfWeb("")], [true, false, false]);
});

test("no property of an element is a handler, a style or HTML", () => {
  const text = [...HOSTILE, "# a {onclick=x}", "[x](https://example.com){style=x}", '`" onclick=x`'].join("\n\n");
  const allowed = new Set([
    "dir",
    "href",
    "target",
    "rel",
    "start",
    "tabIndex",
    "class",
    "type",
    "checked",
    "disabled",
    "aria-label",
  ]);
  for (const { props } of shown(text).elements)
    assert.deepEqual(
      Object.keys(props).filter((name) => !allowed.has(name)),
      [],
    );
});

test("what nests too deeply is shown as it was written", () => {
  const { elements, text } = shown(`${">".repeat(500)} x`);
  assert.equal(elements.length < 50, true);
  assert.match(text, /^>{400,}/);
});
