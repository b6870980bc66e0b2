// Quartiles, and the figures of a box plot. Pure.

export interface Box {
  readonly lower: number;
  readonly median: number;
  readonly upper: number;
  /** The ends of the whiskers: the farthest values within 1.5 times the distance of the quartiles from these. */
  readonly low: number;
  readonly high: number;
}

const WHISKER = 1.5; // Tukey 1977

/** Of at least one value, in any sequence. */
export function boxOf(values: readonly number[]): Box {
  const sorted = values.toSorted((a, b) => a - b);
  const [lower, median, upper] = [0.25, 0.5, 0.75].map((share) => quantile(sorted, share)) as [number, number, number];
  const room = WHISKER * (upper - lower);
  return {
    lower,
    median,
    upper,
    low: sorted.find((value) => value >= lower - room) as number,
    high: sorted.findLast((value) => value <= upper + room) as number,
  };
}

/** As in NumPy and R: on a line between the two nearest values. */
function quantile(sorted: readonly number[], share: number): number {
  const place = share * (sorted.length - 1);
  const before = sorted[Math.floor(place)] as number;
  return before + (place % 1) * ((sorted[Math.ceil(place)] as number) - before);
}
