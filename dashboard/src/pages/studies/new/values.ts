// The values of a field that varies, as people type them: 32, 64 or, in a search, 0.0001 to 0.1 log.

import { isObject } from "../../new/draft.ts";
import type { Json } from "../../new/schema.ts";
import { textOf, typed } from "../../new/text.ts";

const RANGE = /^(int\s+)?(\S+)\s+to\s+(\S+?)(\s+log)?$/;

/** A list of values, or the range of a search's dimension. What cannot be read stays text: the api says what is wrong. */
export function valuesOf(text: string, isSearch: boolean): Json {
  const [range, isInt, low = "", high = "", isLog] = isSearch ? (RANGE.exec(text.trim()) ?? []) : [];
  if (range !== undefined) {
    const ends = [typed("json", low) ?? null, typed("json", high) ?? null];
    if (isInt !== undefined) return isLog === undefined ? { int: ends } : { int: ends, log: true };
    return isLog === undefined ? { uniform: ends } : { log: ends };
  }
  try {
    return JSON.parse(`[${text}]`) as Json;
  } catch {
    return text.split(",").flatMap((part) => typed("json", part) ?? []);
  }
}

/** What to type for these values. */
export function textOfValues(values: Json): string {
  if (Array.isArray(values)) {
    const write = values.every(isPlain) ? textOf : JSON.stringify;
    return values.map((value) => write(value)).join(", ");
  }
  if (!isObject(values)) return textOf(values);
  for (const kind of ["uniform", "log", "int"] as const) {
    const ends = values[kind];
    if (!Array.isArray(ends)) continue;
    const isLog = kind === "log" || values["log"] === true;
    return `${kind === "int" ? "int " : ""}${ends.map(textOf).join(" to ")}${isLog ? " log" : ""}`;
  }
  return JSON.stringify(values);
}

/** Whether a value is read back from its own text: a number, or a text that is no JSON and has no comma. */
function isPlain(value: Json): boolean {
  return (
    typeof value === "number" || (typeof value === "string" && !value.includes(",") && typed("json", value) === value)
  );
}
