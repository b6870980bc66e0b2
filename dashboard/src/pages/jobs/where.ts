// The conditions of the list, as a text and as parts. The service reads the same texts: `where` of `GET /v1/jobs`.

import type { Problem } from "../../api/problem.ts";
import type { View } from "./view.ts";

/** The operators, and what the page calls them. The last two have no value: the job has one, or has none. */
export const OPERATORS = {
  "=": "is",
  "!=": "is not",
  ">": ">",
  ">=": "≥",
  "<": "<",
  "<=": "≤",
  "~": "matches",
  "!~": "matches not",
  "": "has a value",
  "!": "has no value",
} as const;

export type Operator = keyof typeof OPERATORS;

/** Names and values are as they are written: with odd characters they are JSON strings, in double quotes. */
export interface Comparison {
  readonly field: string;
  readonly operator: Operator;
  readonly value: string;
}

const QUOTED = String.raw`"(?:[^"\\]|\\.)*"`;
const PLAIN_FIELD = String.raw`(?!or(?:[\s=!<>~"]|$))[^\s=!<>~"]+`;
// FIELD OP VALUE, FIELD or !FIELD, to the next " or " or to the end, as in jobs/model/where.py.
const COMPARISON = new RegExp(
  String.raw`\s*(!?)(${QUOTED}|${PLAIN_FIELD})` +
    String.raw`(?:\s*([!<>]=|!~|[=<>~])(?![=!<>~])(\s*${QUOTED}|(?!\s*").*?))?\s*(?:\sor\s|$)`,
  "y",
);

/** The comparisons of a condition, any of which must hold. Null if it cannot be read. */
export function comparisonsOf(condition: string): Comparison[] | null {
  const comparisons: Comparison[] = [];
  COMPARISON.lastIndex = 0;
  for (;;) {
    const [whole = "", not = "", field = "", operator = not, value = ""] = COMPARISON.exec(condition) ?? [];
    if (field === "" || (not !== "" && operator !== "!")) return null;
    comparisons.push({ field, operator: operator as Operator, value: value.trim() });
    if (COMPARISON.lastIndex === condition.length && !/\sor\s$/.test(whole)) return comparisons;
  }
}

/** The condition of these comparisons; null while one of them is not complete. */
export function conditionOf(comparisons: readonly Comparison[]): string | null {
  if (comparisons.some(({ field, operator, value }) => field === "" || (hasValue(operator) && value === "")))
    return null;
  return comparisons.map(textOf).join(" or ");
}

export function hasValue(operator: Operator): boolean {
  return operator !== "" && operator !== "!";
}

/** A name or a value is put in quotes if it would be read as something else. */
function textOf({ field, operator, value }: Comparison): string {
  const name = firstOf(field)?.field === field ? field : JSON.stringify(field);
  if (!hasValue(operator)) return operator + name;
  const text = `${name} ${operator} ${value}`;
  return value !== "" && firstOf(text)?.value === value ? text : `${name} ${operator} ${JSON.stringify(value)}`;
}

/** The first comparison of a text, as it is read in front of another one. */
function firstOf(text: string): Comparison | undefined {
  return comparisonsOf(`${text} or x`)?.[0];
}

/** What the service says about a condition, of which it repeats the beginning; undefined if it has no objection. */
export function messageFor(condition: string, problem: Problem | undefined): string | undefined {
  const isAbout = (received: unknown): boolean => {
    const text = String(received);
    return text.endsWith("…") ? condition.startsWith(text.slice(0, -1)) : condition === text;
  };
  return problem?.errors.find(({ field, received }) => field === "where" && isAbout(received))?.message;
}

export interface Condition {
  readonly text: string;
  /** The change of the view that removes it. */
  readonly removal: Partial<View>;
}

/** The conditions of a view. Its owner, project and labels are some too: the list has indexes for them. */
export function conditionsOf({ owner, project, labels, where }: View): Condition[] {
  // These values are no texts of a condition: a quote in front is a part of the value.
  const equal = (field: string, value: string): string =>
    textOf({ field, operator: "=", value: value.startsWith('"') ? JSON.stringify(value) : value });
  return [
    ...(owner === "" ? [] : [{ text: equal("owner", owner), removal: { owner: "" } }]),
    ...(project === "" ? [] : [{ text: equal("project", project), removal: { project: "" } }]),
    ...labels.map((label) => {
      const [, key = "", value = ""] = /^([^:]*):(.*)$/s.exec(label) ?? [];
      return {
        text: equal(`label.${key}`, value),
        removal: { labels: labels.filter((other) => other !== label) },
      };
    }),
    ...where.map((text, place) => ({ text, removal: { where: where.filter((_, other) => other !== place) } })),
  ];
}

/** The change of the view that gives it these conditions in place of its own. */
export function withConditions(texts: readonly string[]): Partial<View> {
  return { owner: "", project: "", labels: [], where: texts };
}
