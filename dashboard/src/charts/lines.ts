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
  /** How far values spread around the line, as a pale area. */
  readonly spread?: Spread;
  /** How many values each point is the mean of. As many as `xs`. */
  readonly counts?: Numbers;
  /** It belongs to another line: it is neither in the legend nor in the table. */
  readonly isDetail?: boolean;
  /** Drawn thin and pale, without its points. */
  readonly isPale?: boolean;
  /** Drawn thicker than others. */
  readonly isThick?: boolean;
  /** A colour of tokens.css, by its name. */
  readonly colour: string;
  readonly dash?: readonly number[];
}

/** As many values as `xs`; NaN is a gap. */
export interface Spread {
  readonly low: Numbers;
  readonly high: Numbers;
  /** Both are as far away from the line, by default one standard deviation. Otherwise they are the least and the greatest value. */
  readonly isDeviation?: boolean;
  /** What the two ends are, or how far both are, in a file: by default "min" and "max", or "std". */
  readonly names?: readonly string[];
  /** The area is not drawn, as there are too many. */
  readonly isHidden?: boolean;
  /** The y axis has room from the least to the greatest of these too. */
  readonly room?: readonly Numbers[];
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

/** The value of a line at `x`, which may lie between two points; NaN before its first and after its last point. */
export function valueAt({ xs, ys }: { readonly xs: Numbers; readonly ys: Numbers }, x: number): number {
  const before = indexUpTo(xs, x);
  const [here, there] = [xs[before], xs[before + 1]];
  if (here === x) return ys[before] as number;
  if (here === undefined || there === undefined) return Number.NaN;
  const share = (x - here) / (there - here);
  return (ys[before] as number) * (1 - share) + (ys[before + 1] as number) * share;
}

/** The index of the point nearest to `place`; with null, of the last point in view that has a value. -1 without any. */
export function indexAt({ xs, ys }: Line, place: number | null, range: Range | null): number {
  if (place !== null) return indexNearest(xs, place);
  let index = range === null ? xs.length - 1 : indexUpTo(xs, range[1]);
  while (index > 0 && !Number.isFinite(ys[index])) index -= 1;
  return index;
}

/** The value of a point in words, with the spread and the count of a mean: 0.912 (0.9 to 0.93), n 3. */
export function pointText(line: Line, index: number, format: (y: number) => string): string {
  const { ys, spread, counts } = line;
  const [value, low, high] = [ys, spread?.low, spread?.high].map((each) => each?.[index] ?? Number.NaN) as number[];
  const around = !Number.isFinite(high)
    ? ""
    : spread?.isDeviation
      ? ` ± ${format((high as number) - (value as number))}`
      : ` (${format(low as number)} to ${format(high as number)})`;
  return `${format(value as number)}${around}${counts?.[index] === undefined ? "" : `, n ${counts[index]}`}`;
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
    const { spread } = line;
    for (const ys of spread === undefined ? [line.ys] : [line.ys, spread.low, spread.high, ...(spread.room ?? [])])
      for (let i = first; i < end; i++) {
        const y = ys[i] as number;
        if (!(y > above && y < Number.POSITIVE_INFINITY)) continue;
        if (y < least) least = y;
        if (y > greatest) greatest = y;
      }
  }
  return least <= greatest ? [least, greatest] : null;
}

const FEWEST = 3; // points that say that a value does not change

/** The value of all points of all lines; null if they differ, or are too few to tell. Some may have none (NaN). */
export function constantOf(lines: readonly Line[]): { readonly value: number; readonly count: number } | null {
  let [value, count] = [Number.NaN, 0];
  for (const { ys } of lines)
    for (let i = 0; i < ys.length; i++) {
      const y = ys[i] as number;
      if (Number.isNaN(y)) continue;
      if (!Number.isFinite(y) || (count > 0 && y !== value)) return null;
      value = y;
      count += 1;
    }
  return count >= FEWEST ? { value, count } : null;
}

/** The line on a logarithmic axis: with the power of ten of each x. Points at 0 and below have no place there. */
export function inLogX(line: Line): Line {
  const first = indexUpTo(line.xs, 0) + 1;
  const cut = (values: Numbers): number[] => Array.from(values).slice(first);
  const { smooth, counts, spread } = line;
  return {
    ...line,
    xs: cut(line.xs).map(Math.log10),
    ys: cut(line.ys),
    ...(smooth ? { smooth: cut(smooth) } : {}),
    ...(counts ? { counts: cut(counts) } : {}),
    ...(spread
      ? { spread: { ...spread, low: cut(spread.low), high: cut(spread.high), room: (spread.room ?? []).map(cut) } }
      : {}),
  };
}

/** A place of a logarithmic axis as the value that stands there. */
export function fromLog(x: number): number {
  return Number((10 ** x).toPrecision(12));
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
