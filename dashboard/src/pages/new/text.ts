// Converts values to typed text and back. A text that cannot be read is sent as it is: the api says what is
// wrong with it, and what it accepts.

import { isObject } from "./draft.ts";
import type { Field, Json } from "./schema.ts";

const NUMBER = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i;

/** The value of a typed text; undefined if it is empty. */
export function typed(kind: Field["kind"], text: string): Json | undefined {
  const bare = text.trim();
  if (bare === "") return undefined;
  if (kind === "json") return jsonOf(bare);
  const isFigure = kind !== "text" && NUMBER.test(bare) && Number.isFinite(Number(bare));
  return isFigure ? Number(bare) : bare;
}

function jsonOf(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return text;
  }
}

const WIDE = 60; // letters in a line

/** A value as JSON: in one line if that is short. A text that is no JSON stays as it is. */
export function jsonText(value: Json | undefined): string {
  if (typeof value !== "object" || value === null) return textOf(value);
  const line = JSON.stringify(value);
  return line.length <= WIDE ? line : JSON.stringify(value, null, 2);
}

/** A value as people type it. */
export function textOf(value: Json | undefined): string {
  if (value === undefined || value === null) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** A value in a word or two, for a summary: 96 × 96, on, 3 labels. */
export function brief(value: Json | undefined, kind: Field["kind"]): string {
  if (kind === "part") return value === null ? "off" : "on";
  if (value === undefined || value === null) return "none";
  if (typeof value === "boolean") return value ? "on" : "off";
  if (kind === "sizes" && Array.isArray(value)) return value.map(textOf).join(" × ");
  if (kind === "choices" && Array.isArray(value))
    return value.map((item) => textOf(isObject(item) ? item["name"] : item).replaceAll("_", " ")).join(", ") || "none";
  if (kind === "pairs" && typeof value === "object")
    return (
      Object.entries(value)
        .map(([key, each]) => `${key}:${textOf(each)}`)
        .join(", ") || "none"
    );
  const text = textOf(value);
  return text.length > WIDE ? `${text.slice(0, WIDE - 1)}…` : text;
}

/** A name within a sentence: GPUs stay GPUs. */
export function lowered(name: string): string {
  return name.replace(/^[A-Z](?=[a-z -])/, (letter) => letter.toLowerCase());
}

/** Sizes with one of them set; null if all are empty. */
export function withSize(value: Json | undefined, index: number, size: Json | undefined): Json {
  const before = Array.isArray(value) ? value : [];
  const sizes: Json[] = [0, 1].map((each) => (each === index ? (size ?? null) : (before[each] ?? null)));
  return sizes.every((each) => each === null) ? null : sizes;
}

export type Pair = readonly [key: string, value: string];

/** Pairs as an object. Pairs without a key are left out. */
export function objectOf(pairs: readonly Pair[]): { [name: string]: string } {
  return Object.fromEntries(pairs.filter(([key]) => key !== ""));
}
