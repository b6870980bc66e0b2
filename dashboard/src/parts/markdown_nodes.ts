// Markdown as elements of the page. No HTML is made or read: tags in the text are shown as text, so nothing that a
// person writes can run or load anything. Loaded by `markdown.tsx` when a page shows Markdown.

import { Lexer, type Token, type Tokens } from "marked";
import { type ComponentChildren, Fragment, h } from "preact";

const FIRST_LEVEL = 3; // the page and its panels have the headings above it
const LAST_LEVEL = 6;
const MOST_DEPTH = 40; // of elements within elements; what is deeper is shown as it was written
const ENTITIES: Readonly<Record<string, string>> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  "#39": "'",
  nbsp: "\u00a0",
};

/** The elements of a text. Throws for a text that nests too deeply for its reader. */
export function nodesOf(text: string): ComponentChildren {
  return all(new Lexer().lex(text), 0);
}

/** Whether an address may be followed: the web, and nothing that runs in this page or opens another program. */
export function isOfWeb(href: string): boolean {
  try {
    return ["http:", "https:"].includes(new URL(href).protocol);
  } catch {
    return false; // relative: it would mean something else on each page
  }
}

function all(tokens: readonly Token[] = [], depth: number): ComponentChildren {
  if (depth > MOST_DEPTH) return tokens.map(({ raw }) => raw).join("");
  return tokens.map((token, index) => h(Fragment, { key: index }, nodeOf(token, depth + 1)));
}

function nodeOf(token: Token, depth: number): ComponentChildren {
  const inner = (): ComponentChildren => all((token as Tokens.Generic).tokens, depth);
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "heading":
      return h(`h${Math.min(LAST_LEVEL, FIRST_LEVEL - 1 + (token as Tokens.Heading).depth)}`, { dir: "auto" }, inner());
    case "paragraph":
      return h("p", { dir: "auto" }, inner());
    case "text":
      return (token as Tokens.Text).tokens === undefined ? plain((token as Tokens.Text).text) : inner();
    case "escape":
      return (token as Tokens.Escape).text;
    case "strong":
    case "em":
    case "del":
    case "blockquote":
      return h(token.type, {}, inner());
    case "codespan":
      return h("code", {}, (token as Tokens.Codespan).text);
    case "code":
      return h("pre", { tabIndex: 0 }, h("code", {}, (token as Tokens.Code).text));
    case "br":
    case "hr":
      return h(token.type, {});
    case "link":
      return link(token as Tokens.Link, inner());
    case "image": // it is not loaded: its host would learn who reads the notes
      return link(token as Tokens.Image, (token as Tokens.Image).text || (token as Tokens.Image).href);
    case "list":
      return list(token as Tokens.List, depth);
    case "checkbox":
      return box((token as Tokens.Checkbox).checked);
    case "table":
      return table(token as Tokens.Table, depth);
    default:
      return token.raw; // HTML, and what a newer version of the library may find
  }
}

function link({ href, raw }: Tokens.Link | Tokens.Image, text: ComponentChildren): ComponentChildren {
  if (!isOfWeb(href)) return raw;
  return h("a", { href, target: "_blank", rel: "noopener noreferrer nofollow" }, text);
}

function list({ ordered, start, items }: Tokens.List, depth: number): ComponentChildren {
  const entries = items.map((item, index) => h("li", { key: index, dir: "auto" }, all(item.tokens, depth)));
  return ordered ? h("ol", { start: Number(start) || 1 }, entries) : h("ul", {}, entries);
}

function box(isChecked: boolean): ComponentChildren {
  return h("input", {
    type: "checkbox",
    checked: isChecked,
    disabled: true,
    "aria-label": isChecked ? "done" : "to do",
  });
}

function table({ header, rows }: Tokens.Table, depth: number): ComponentChildren {
  const cells = (row: readonly Tokens.TableCell[], name: "th" | "td"): ComponentChildren =>
    row.map(({ tokens, align }, index) =>
      h(name, { key: index, class: align === "right" ? "figure" : undefined, dir: "auto" }, all(tokens, depth)),
    );
  const body = rows.map((row, index) => h("tr", { key: index }, cells(row, "td")));
  const head = h("thead", {}, h("tr", {}, cells(header, "th")));
  return h("div", { class: "wide", tabIndex: 0 }, h("table", {}, head, h("tbody", {}, body)));
}

/** The text of a token, in which entities are still written as in HTML. */
function plain(text: string): string {
  return text.replace(/&(amp|lt|gt|quot|#39|nbsp);/g, (entity, name: string) => ENTITIES[name] ?? entity);
}
