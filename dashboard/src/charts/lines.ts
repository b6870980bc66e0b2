// The lines of a chart as numbers: what of them is in view, how far they reach, and the path that a pen takes.
// Pure functions; `plot.tsx` draws with them.

export type Numbers = ArrayLike<number>;

export interface Line {
  readonly key: string;
  /** What the legend calls it. */
  readonly name: string;
  /** Ascending. */
  readonly xs: Numbers;
  /** As many; NaN is a gap. */
  readonly ys: Numbers;
  /** The same line smoothed; then `ys` itself is drawn faintly behind it. */
  readonly smooth?: Numbers;
  /** A colour of tokens.css, by its name. */
  readonly colour: string;
  readonly dash?: readonly number[];
}

export type Range = readonly [from: number, to: number];

/** The index of the last x that is at most `x`; -1 where there is none. */
export function indexUpTo(xs: Numbers, x: number): number {
  let low = 0;
  let high = xs.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((xs[middle] as number) <= x) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** The index of the x that is nearest to `x`; -1 of no points. */
export function indexNearest(xs: Numbers, x: number): number {
  const before = indexUpTo(xs, x);
  if (before < 0) return xs.length === 0 ? -1 : 0;
  if (before === xs.length - 1) return before;
  return x - (xs[before] as number) <= (xs[before + 1] as number) - x ? before : before + 1;
}

/** The indices, first and behind the last, of the points in a range and of one neighbour on each side. */
export function inView(xs: Numbers, [from, to]: Range): Range {
  return [Math.max(0, indexUpTo(xs, from)), Math.min(xs.length, indexUpTo(xs, to) + 2)];
}

/** From the least to the greatest x of all lines; null without points. */
export function xExtent(lines: readonly Line[]): Range | null {
  let least = Number.POSITIVE_INFINITY;
  let greatest = Number.NEGATIVE_INFINITY;
  for (const { xs } of lines) {
    if (xs.length === 0) continue;
    least = Math.min(least, xs[0] as number);
    greatest = Math.max(greatest, xs[xs.length - 1] as number);
  }
  return least <= greatest ? [least, greatest] : null;
}

/** From the least to the greatest value within a range of x; null without any. `above` leaves out what is not above it. */
export function yExtent(lines: readonly Line[], range: Range, above = Number.NEGATIVE_INFINITY): Range | null {
  let least = Number.POSITIVE_INFINITY;
  let greatest = Number.NEGATIVE_INFINITY;
  for (const { xs, ys } of lines) {
    for (
      let i = indexUpTo(xs, range[0] - Number.EPSILON * Math.abs(range[0])), end = indexUpTo(xs, range[1]) + 1;
      i < end;
      i++
    ) {
      const y = ys[i] as number;
      if (i < 0 || (xs[i] as number) < range[0] || !(y > above)) continue;
      if (y < least) least = y;
      if (y > greatest) greatest = y;
    }
  }
  return least <= greatest ? [least, greatest] : null;
}

/** A range with a margin, so that no line lies on the frame; of a single value, with room around it. */
export function padded([least, greatest]: Range, isLog: boolean): Range {
  if (isLog) return [least / 1.2, greatest * 1.2];
  const margin = greatest > least ? (greatest - least) * 0.06 : Math.abs(greatest) * 0.1 || 1;
  return [least - margin, greatest + margin];
}

/** What draws a path: the browser's Path2D, or a test. */
export interface Pen {
  moveTo(x: number, y: number): void;
  lineTo(x: number, y: number): void;
}

/**
 * Draw the points of `view`. Where several share a column of pixels its first, least, greatest and last are drawn: a
 * hundred thousand points cost as little as the columns have, and a spike of a single point is never lost.
 */
export function trace(
  xs: Numbers,
  ys: Numbers,
  view: Range,
  toX: (x: number) => number,
  toY: (y: number) => number,
  pen: Pen,
): void {
  let column = Number.NaN;
  let first = 0;
  let least = 0;
  let greatest = 0;
  let last = 0;
  let isDown = false;
  const flush = (): void => {
    if (Number.isNaN(column)) return;
    if (isDown) pen.lineTo(column, first);
    else pen.moveTo(column, first);
    if (least !== greatest) {
      pen.lineTo(column, least);
      pen.lineTo(column, greatest);
      pen.lineTo(column, last);
    } else if (!isDown) pen.lineTo(column, first); // a round end makes a dot of a lonely point
    isDown = true;
    column = Number.NaN;
  };
  for (let i = view[0]; i < view[1]; i++) {
    const y = toY(ys[i] as number);
    if (!Number.isFinite(y)) {
      flush();
      isDown = false;
      continue;
    }
    const x = Math.round(toX(xs[i] as number) * 2) / 2;
    if (x !== column) {
      flush();
      column = x;
      first = least = greatest = last = y;
      continue;
    }
    last = y;
    if (y < least) least = y;
    if (y > greatest) greatest = y;
  }
  flush();
}
