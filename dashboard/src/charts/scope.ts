// State that the charts of a page share: the axis, the range in view, the cursor.

import { computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { fileStem } from "../format.ts";
import type { Range } from "./lines.ts";
import type { YAxis } from "./y_range.ts";

export interface Scope {
  /** The position of the pointer on the axis; null while there is none. */
  readonly cursor: Signal<number | null>;
  /** The range that a person zoomed to; null is all of the axis. */
  readonly zoom: Signal<Range | null>;
  /** The ranges of y axes that a person zoomed to, by the names of the charts in the address. */
  readonly cuts: Signal<ReadonlyMap<string, Range>>;
  /** Whether y axes have no room for outliers. */
  readonly isCropped: Signal<boolean>;
  /** The range in view, the same on every chart. Null while no chart has a point. */
  readonly range: ReadonlySignal<Range | null>;
  /** The range of the points of each chart, by its key. */
  readonly extents: Signal<ReadonlyMap<string, Range>>;
}

const NO_CUTS: ReadonlyMap<string, Range> = new Map();
const SHORTEST = 1e-6; // of the whole axis

/** A new scope. Pass what the page's address contains. */
export function newScope(
  zoom: Signal<Range | null> = signal(null),
  cuts: Signal<ReadonlyMap<string, Range>> = signal(NO_CUTS),
  isCropped: Signal<boolean> = signal(false),
): Scope {
  const extents = signal<ReadonlyMap<string, Range>>(new Map());
  const range = computed(() => zoom.value ?? widened(union(extents.value.values())));
  return { cursor: signal(null), zoom, cuts, isCropped, range, extents };
}

/** What a person chose for the y axis of a chart. */
export function yChoice(scope: Scope, title: string): Pick<YAxis, "ends" | "isCropped"> {
  return { ends: scope.cuts.peek().get(fileStem(title)), isCropped: scope.isCropped.peek() };
}

/** Zoom the y axis of a chart; null shows all of it. */
export function cut(scope: Scope, title: string, ends: Range | null): void {
  const next = new Map(scope.cuts.peek());
  if (ends === null) next.delete(fileStem(title));
  else next.set(fileStem(title), ends);
  scope.cuts.value = next;
}

/** Show all of both axes on every chart. */
export function showAll(scope: Scope): void {
  scope.zoom.value = null;
  scope.cuts.value = NO_CUTS;
}

/** The place at a share of the axis: 0 is its left end, 1 its right end. */
export function placeAt(scope: Scope, share: number): number {
  const [from, to] = scope.range.peek() ?? [0, 1];
  return from + share * (to - from);
}

/** Report the extent of a chart; null if it has no points or is removed. */
export function report(scope: Scope, chart: string, extent: Range | null): void {
  const before = scope.extents.peek().get(chart) ?? null;
  if (before?.[0] === extent?.[0] && before?.[1] === extent?.[1]) return;
  const next = new Map(scope.extents.peek());
  if (extent === null) next.delete(chart);
  else next.set(chart, extent);
  scope.extents.value = next;
}

/** Move the range in view by a share of its length, but not beyond the points. */
export function pan(scope: Scope, share: number): void {
  const all = union(scope.extents.peek().values());
  const now = scope.zoom.peek();
  if (all === null || now === null) return;
  const length = now[1] - now[0];
  const from = Math.min(Math.max(now[0] + share * length, all[0]), Math.max(all[0], all[1] - length));
  if (from !== now[0]) scope.zoom.value = [from, from + length];
}

/** Make the range in view shorter (`factor` below 1) or longer around a place on the axis. */
export function zoomBy(scope: Scope, factor: number, around: number): void {
  const now = scope.range.peek();
  if (now !== null) zoomTo(scope, around - (around - now[0]) * factor, around + (now[1] - around) * factor);
}

/** Zoom to a range, within the points and no smaller than can be drawn. */
export function zoomTo(scope: Scope, start: number, end: number): void {
  const all = union(scope.extents.peek().values());
  if (all === null) return;
  const from = Math.max(all[0], start);
  const to = Math.min(all[1], end);
  const shortest = Math.max((all[1] - all[0]) * SHORTEST, Number.EPSILON * Math.abs(all[1]) * 8);
  if (from <= all[0] && to >= all[1]) scope.zoom.value = null;
  else if (to - from >= shortest) scope.zoom.value = [from, to];
}

/** Pan so that a place is in view. */
export function reveal(scope: Scope, x: number): void {
  const now = scope.zoom.peek();
  if (now === null) return;
  const length = now[1] - now[0];
  if (x < now[0]) pan(scope, (x - now[0]) / length - 0.1);
  else if (x > now[1]) pan(scope, (x - now[1]) / length + 0.1);
}

/** The range. If it is a single place, it gets room around it. */
function widened(range: Range | null): Range | null {
  return range !== null && range[0] === range[1] ? [range[0] - 0.5, range[1] + 0.5] : range;
}

function union(extents: Iterable<Range>): Range | null {
  let least = Number.POSITIVE_INFINITY;
  let greatest = Number.NEGATIVE_INFINITY;
  for (const [from, to] of extents) {
    least = Math.min(least, from);
    greatest = Math.max(greatest, to);
  }
  return least <= greatest ? [least, greatest] : null;
}
