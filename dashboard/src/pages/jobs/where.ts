// The conditions of the list, as a text and as parts. The service reads the same texts: `where` of `GET /v1/jobs`.

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
const PLAIN_FIELD = String.raw`[^\s=!<>~"]+`;
// FIELD OP VALUE, FIELD or !FIELD, to the next " or " or to the end.
const COMPARISON = new RegExp(
  String.raw`\s*(!?)(${QUOTED}|${PLAIN_FIELD})\s*(?:([!<>]=|!~|[=<>~])\s*(${QUOTED}|(?:[^\s"].*?)?))?\s*(?:\sor\s|$)`,
  "y",
);

/** The comparisons of a condition, any of which must hold. Null if it cannot be read. */
export function comparisonsOf(condition: string): Comparison[] | null {
  const comparisons: Comparison[] = [];
  COMPARISON.lastIndex = 0;
  for (;;) {
    const [whole = "", not = "", field = "", operator = not, value = ""] = COMPARISON.exec(condition) ?? [];
    if (field === "" || (not !== "" && operator !== "!")) return null;
    comparisons.push({ field, operator: operator as Operator, value });
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

function textOf({ field, operator, value }: Comparison): string {
  const name = new RegExp(`^(${PLAIN_FIELD}|".*)$`).test(field) ? field : JSON.stringify(field);
  if (!hasValue(operator)) return operator + name;
  return `${name} ${operator} ${/^$|^[^"].*\sor\s/.test(value) ? JSON.stringify(value) : value}`;
}

export interface Condition {
  readonly text: string;
  /** The change of the view that removes it. */
  readonly removal: Partial<View>;
}

/** The conditions of a view. Its owner, project and labels are some too: the list has indexes for them. */
export function conditionsOf({ owner, project, labels, where }: View): Condition[] {
  const equal = (field: string, value: string): string => textOf({ field, operator: "=", value });
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
