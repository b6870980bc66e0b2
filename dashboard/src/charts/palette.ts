// Which colour and which dash a run has: the same on every chart, in every table.

const HUES = 8;
const DASHES: readonly (readonly number[])[] = [[], [7, 3], [2, 3], [9, 3, 2, 3], [14, 4]];

/** The name in tokens.css of the colour of the run at this place of a list. */
export function runColour(place: number): string {
  return `run-${place % HUES}`;
}

/** What tells runs of one colour apart. */
export function runDash(place: number): readonly number[] {
  return DASHES[Math.floor(place / HUES) % DASHES.length] as readonly number[];
}
