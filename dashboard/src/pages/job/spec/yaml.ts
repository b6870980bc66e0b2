// A spec as YAML for `hora submit`: as much of YAML as JSON values need. Used by `spec_panel.tsx`.

import type { Json } from "./fields.ts";

// Texts that need no quotes in YAML: not a number, date, boolean or null in any of its versions.
const PLAIN = /^[A-Za-z_/][A-Za-z0-9_./@ -]*$/;
const WORDS = /^(null|true|false|yes|no|on|off|y|n|nan|inf)$/i;

/** Block style for objects, flow style for lists. */
export function yamlOf(value: { readonly [key: string]: Json }, indent = ""): string {
  return Object.entries(value)
    .map(([key, below]) => {
      const isBlock =
        typeof below === "object" && below !== null && !Array.isArray(below) && Object.keys(below).length > 0;
      return isBlock
        ? `${indent}${scalar(key)}:\n${yamlOf(below as { readonly [key: string]: Json }, `${indent}  `)}`
        : `${indent}${scalar(key)}: ${scalar(below)}\n`;
    })
    .join("");
}

function scalar(value: Json): string {
  if (typeof value === "string") {
    return PLAIN.test(value) && !WORDS.test(value) && !value.endsWith(" ") ? value : JSON.stringify(value);
  }
  if (typeof value === "number") return numeral(value);
  if (Array.isArray(value)) return `[${value.map(scalar).join(", ")}]`;
  return JSON.stringify(value);
}

/** YAML 1.1 takes 1e-05 for a text, and 1.0e-05 for a number. */
function numeral(value: number): string {
  const text = String(value);
  return /^-?\d+e/.test(text) ? text.replace("e", ".0e") : text;
}
