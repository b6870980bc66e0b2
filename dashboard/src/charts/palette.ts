// The colour and dash of a run: the same on every chart and in every table.

/** Names of the colours, in their order. */
export const HUES = ["blue", "orange", "green", "pink", "gold", "sky", "violet", "grey"] as const;

const DASHES: readonly (readonly number[])[] = [[], [7, 3], [2, 3], [9, 3, 2, 3], [14, 4]];

/** The colour of the run at this position of a list, by its name in tokens.css. */
export function runColour(place: number): string {
  return `run-${place % HUES.length}`;
}

/** The dash, which distinguishes runs of one colour. */
export function runDash(place: number): readonly number[] {
  return DASHES[Math.floor(place / HUES.length) % DASHES.length] as readonly number[];
}
