// The ranges in view as texts of the page's address. Pure.

import { listOf } from "../query.ts";
import type { Range } from "./lines.ts";

export function rangeFrom(from: string, to: string): Range | null {
  const range = [Number(from), Number(to)] as const;
  return from !== "" && to !== "" && range[0] < range[1] ? range : null;
}

/** The ends of a range, with no more digits than a chart shows. */
export function textsOf(range: Range | null): [from: string | null, to: string | null] {
  if (range === null) return [null, null];
  const places = Math.max(0, 3 - Math.floor(Math.log10(range[1] - range[0])));
  return [text(range[0], places), text(range[1], places)];
}

function text(x: number, places: number): string {
  return String(Number(x.toFixed(Math.min(12, places))));
}

/** The ranges of y axes by the names of their charts: `loss:0.1:0.5,val-loss:0:2`. What is invalid is ignored. */
export function cutsFrom(text: string): ReadonlyMap<string, Range> {
  const cuts = new Map<string, Range>();
  for (const [name = "", from = "", to = ""] of listOf(text).map((item) => item.split(":"))) {
    const range = rangeFrom(from, to);
    if (range !== null) cuts.set(name, range);
  }
  return cuts;
}

export function cutsText(cuts: ReadonlyMap<string, Range>): string {
  return [...cuts].map(([name, range]) => [name, ...textsOf(range)].join(":")).join();
}
