// Ranges drawn on axes of the parallel coordinates. Runs outside of a range fade on every chart and in the table.
// In the address: "batch_size:32..128,model.name:lenet5|mlp". Pure.

import type { Job } from "../../api/types.ts";
import type { Brush } from "../../charts/axis_scale.ts";
import { type Field, type Value, valueText } from "./fields.ts";

/** By the key of the field. */
export type Brushes = ReadonlyMap<string, Brush>;

export function parseBrushes(text: string): Brushes {
  const brushes = new Map<string, Brush>();
  for (const part of text === "" ? [] : text.split(",")) {
    const [key = "", rangeText = ""] = part.split(/:(?=[^:]*$)/);
    const [from, to] = rangeText.split("..").map(Number);
    if (key === "" || rangeText === "") continue;
    if (from !== undefined && to !== undefined && Number.isFinite(from) && Number.isFinite(to))
      brushes.set(key, { from, to });
    else brushes.set(key, { texts: rangeText.split("|").map(decoded) });
  }
  return brushes;
}

export function brushesText(brushes: Brushes): string {
  return [...brushes]
    .map(([key, brush]) =>
      "texts" in brush
        ? `${key}:${brush.texts.map(encodeURIComponent).join("|")}`
        : `${key}:${rounded(brush.from, -1)}..${rounded(brush.to, 1)}`,
    )
    .join(",");
}

/** A copy of the brushes with one changed; null removes it. */
export function withBrush(brushes: Brushes, key: string, brush: Brush | null): Brushes {
  const next = new Map(brushes);
  if (brush === null) next.delete(key);
  else next.set(key, brush);
  return next;
}

/** Whether a job is within every range. A job without a value is in none. */
export function isWithin(job: Job, fields: readonly Field[], brushes: Brushes): boolean {
  return fields.every((field) => {
    const brush = brushes.get(field.key);
    return brush === undefined || contains(brush, field.valueIn(job));
  });
}

function contains(brush: Brush, value: Value): boolean {
  if ("texts" in brush) return brush.texts.includes(valueText(value));
  return typeof value === "number" && value >= brush.from && value <= brush.to;
}

/** Rounded outwards to four digits, so that a run on the edge stays in the range. */
function rounded(value: number, way: 1 | -1): number {
  const near = Number(value.toPrecision(4));
  if (way * (near - value) >= 0) return near;
  return Number((near + way * 10 ** (Math.floor(Math.log10(Math.abs(near))) - 3)).toPrecision(4));
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a person typed it into the address
  }
}
