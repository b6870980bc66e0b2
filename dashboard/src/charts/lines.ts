// The lines of a chart as numbers: which points are in view, and how far the lines reach.
// Pure functions; `plot.tsx` draws with them.

export type Numbers = ArrayLike<number>;

export interface Line {
  readonly key: string;
  /** In the legend. */
  readonly name: string;
  /** Ascending. */
  readonly xs: Numbers;
  /** As many as `xs`; NaN is a gap. */
  readonly ys: Numbers;
  /** The same line smoothed; then `ys` itself is drawn faintly behind it. */
  readonly smooth?: Numbers;
  /** How far values spread around the line, as a pale area. As many as `xs`; NaN is a gap. */
  readonly spread?: { readonly low: Numbers; readonly high: Numbers };
  /** A colour of tokens.css, by its name. */
  readonly colour: string;
  readonly dash?: readonly number[];
}

export type Range = readonly [from: number, to: number];

/** The index of the last x that is at most `x`; -1 if there is none. */
export function indexUpTo(xs: Numbers, x: number): number {
  return countOf(xs, (each) => each <= x) - 1;
}

/** How many numbers at the start of a sorted list match. */
function countOf(xs: Numbers, isMatch: (x: number) => boolean): number {
  let low = 0;
  let high = xs.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isMatch(xs[middle] as number)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The index of the x that is nearest to `x`; -1 without points. */
export function indexNearest(xs: Numbers, x: number): number {
  const before = indexUpTo(xs, x);
  if (before < 0) return xs.length === 0 ? -1 : 0;
  if (before === xs.length - 1) return before;
  return x - (xs[before] as number) <= (xs[before + 1] as number) - x ? before : before + 1;
}

/** The value of the point nearest to `place`; with null, the newest known value. NaN if there is none. */
export function valueAt({ xs, ys }: Line, place: number | null): number {
  let index = place === null ? ys.length - 1 : indexNearest(xs, place);
  if (place === null) while (index > 0 && !Number.isFinite(ys[index])) index -= 1;
  return ys[index] ?? Number.NaN;
}

/** The first index, and the one after the last, of the points in a range and one neighbour on each side. */
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

/**
 * From the least to the greatest value within a range of x; null without any. If no point lies within, the
 * neighbours on both sides count. Only values greater than `above` count.
 */
export function yExtent(lines: readonly Line[], range: Range, above = Number.NEGATIVE_INFINITY): Range | null {
  return (
    extentOf(lines, above, ({ xs }) => [countOf(xs, (x) => x < range[0]), countOf(xs, (x) => x <= range[1])]) ??
    extentOf(lines, above, ({ xs }) => inView(xs, range))
  );
}

function extentOf(lines: readonly Line[], above: number, indexRange: (line: Line) => Range): Range | null {
  let least = Number.POSITIVE_INFINITY;
  let greatest = Number.NEGATIVE_INFINITY;
  for (const line of lines) {
    const [first, end] = indexRange(line);
    for (const ys of line.spread === undefined ? [line.ys] : [line.ys, line.spread.low, line.spread.high])
      for (let i = first; i < end; i++) {
        const y = ys[i] as number;
        if (!(y > above && y < Number.POSITIVE_INFINITY)) continue;
        if (y < least) least = y;
        if (y > greatest) greatest = y;
      }
  }
  return least <= greatest ? [least, greatest] : null;
}

/** A range with a margin, so that no line touches the frame. A single value gets room around it. */
export function padded([least, greatest]: Range, isLog: boolean): Range {
  if (isLog) {
    const margin = Math.max(1.1, (greatest / least) ** 0.06);
    return [least / margin, greatest * margin];
  }
  const margin = greatest > least ? (greatest - least) * 0.06 : Math.abs(greatest) * 0.1 || 1;
  return [least - margin, greatest + margin];
}
