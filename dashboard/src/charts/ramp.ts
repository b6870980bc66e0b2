// A colour for a figure: a ramp whose lightness always rises, so that it is readable without hues.

const STEPS = 4; // tokens.css has --ramp-0 to --ramp-4

/** The colour of a share of 0..1, as CSS. */
export function rampColour(share: number): string {
  const place = Math.min(1, Math.max(0, share)) * STEPS;
  const below = Math.min(STEPS - 1, Math.floor(place));
  return `color-mix(in oklab, var(--ramp-${below + 1}) ${Math.round((place - below) * 100)}%, var(--ramp-${below}))`;
}

/** The ramp from its least to its greatest, as the background of a legend. */
export const RAMP = `linear-gradient(to right in oklab, ${Array.from({ length: STEPS + 1 }, (_, i) => `var(--ramp-${i})`).join(", ")})`;

/** The background of a cell of a table that has text on it: a tint so light that the text stays readable. */
export function tint(share: number): string {
  return `color-mix(in oklab, var(--accent) ${Math.round(Math.min(1, Math.max(0, share)) * 42)}%, var(--surface))`;
}

/** The position of a value between the least and the greatest, 0..1; 0.5 if these are equal. */
export function shareOf(value: number, [least, greatest]: readonly [number, number]): number {
  return greatest > least ? (value - least) / (greatest - least) : 0.5;
}

/** The least and the greatest of some values; null without values. */
export function extentOf(values: Iterable<number>): readonly [number, number] | null {
  let least = Number.POSITIVE_INFINITY;
  let greatest = Number.NEGATIVE_INFINITY;
  for (const value of values) {
    least = Math.min(least, value);
    greatest = Math.max(greatest, value);
  }
  return least <= greatest ? [least, greatest] : null;
}
