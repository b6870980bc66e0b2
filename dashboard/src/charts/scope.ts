// What the charts of a page share: one axis, one stretch of it, one cursor.

import { computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import type { Range } from "./lines.ts";

export interface Scope {
  /** Where somebody points at, on the axis; null while nobody does. */
  readonly cursor: Signal<number | null>;
  /** The stretch that is looked at; null is all of it. */
  readonly zoom: Signal<Range | null>;
  /** What is in view: the same on every chart. Null while no chart has a point. */
  readonly range: ReadonlySignal<Range | null>;
  /** From where to where each chart has points, by its key. */
  readonly extents: Signal<ReadonlyMap<string, Range>>;
}

/** A new one. `zoom` is given where the page keeps it in its address. */
export function newScope(zoom: Signal<Range | null> = signal(null)): Scope {
  const extents = signal<ReadonlyMap<string, Range>>(new Map());
  const range = computed(() => zoom.value ?? union(extents.value.values()));
  return { cursor: signal(null), zoom, range, extents };
}

/** Say how far a chart reaches; null where it has no points, or is gone. */
export function report(scope: Scope, chart: string, extent: Range | null): void {
  const before = scope.extents.peek().get(chart) ?? null;
  if (before?.[0] === extent?.[0] && before?.[1] === extent?.[1]) return;
  const next = new Map(scope.extents.peek());
  if (extent === null) next.delete(chart);
  else next.set(chart, extent);
  scope.extents.value = next;
}

/** Move the stretch in view by a share of its length, but not beyond the points. */
export function pan(scope: Scope, share: number): void {
  const all = union(scope.extents.peek().values());
  const now = scope.range.peek();
  if (all === null || now === null) return;
  const length = now[1] - now[0];
  const from = Math.min(Math.max(now[0] + share * length, all[0]), Math.max(all[0], all[1] - length));
  scope.zoom.value = [from, from + length];
}

/** Make the stretch in view shorter (`factor` below 1) or longer around a place on the axis. */
export function zoomBy(scope: Scope, factor: number, around: number): void {
  const all = union(scope.extents.peek().values());
  const now = scope.range.peek();
  if (all === null || now === null) return;
  const from = Math.max(all[0], around - (around - now[0]) * factor);
  const to = Math.min(all[1], around + (now[1] - around) * factor);
  const shortest = Math.max((all[1] - all[0]) * 1e-6, Number.EPSILON * Math.abs(all[1]) * 8);
  if (from <= all[0] && to >= all[1]) scope.zoom.value = null;
  else if (to - from >= shortest) scope.zoom.value = [from, to];
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
