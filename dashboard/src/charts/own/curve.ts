// The curve of a formula, from those of its metrics. Pure.

import { type Numbers, valueAt } from "../lines.ts";
import type { Formula } from "./formula.ts";

interface Points {
  /** Ascending. */
  readonly xs: Numbers;
  /** As many as `xs`; NaN is a gap. */
  readonly ys: Numbers;
}

/**
 * The values at the places of the metric with the fewest points. Another metric without a point there has the value
 * between its neighbours: long series are thinned, each at places of its own. Before its first and after its last point
 * it has none. What is no finite number is a gap. Undefined if a name has no points; a number is the same everywhere.
 */
export function curveOf(
  { names, value }: Formula,
  partOf: (name: string) => Points | number | undefined,
): { readonly xs: readonly number[]; readonly ys: readonly number[] } | undefined {
  const parts = new Map(names.map((name) => [name, partOf(name)]));
  let fewest: Points | undefined;
  for (const part of parts.values()) {
    if (part === undefined) return undefined;
    if (typeof part === "object" && part.xs.length < (fewest?.xs.length ?? Number.POSITIVE_INFINITY)) fewest = part;
  }
  const { xs, ys } = fewest ?? { xs: [], ys: [] };
  const values = Array.from(xs, (x, i) =>
    value((name) => {
      const part = parts.get(name) as Points | number;
      return part === fewest ? (ys[i] as number) : typeof part === "number" ? part : valueAt(part, x);
    }),
  );
  return { xs: Array.from(xs), ys: values.map((y) => (Number.isFinite(y) ? y : Number.NaN)) };
}
