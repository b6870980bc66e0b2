// A chart of a job, before it is drawn: its lines, and how its values are written.

import type { Line } from "../../../charts/lines.ts";
import { runColour, runDash } from "../../../charts/palette.ts";
import type { Unit } from "../../../charts/ticks.ts";
import { meanOf, smoothOf } from "./means.ts";
import type { Points } from "./points.ts";
import type { Ranks } from "./view.ts";

export interface Chart {
  readonly key: string;
  readonly title: string;
  readonly lines: readonly Line[];
  readonly format?: (value: number) => string;
  readonly unit?: Unit;
  readonly isLog?: boolean;
  readonly yFrom?: number;
  readonly yTo?: number;
}

/** How one looks at the charts, as far as their lines depend on it. */
export interface ChartOptions {
  readonly smooth: number;
  readonly ranks: Ranks;
  /** How many ranks the job has. */
  readonly count: number;
  /** Of which groups of charts the scale is logarithmic. */
  readonly logs: ReadonlySet<string>;
}

/** By rank; -1 is over all ranks. */
export type ByRank = ReadonlyMap<number, Points>;

const PARTS = 300; // of a mean over ranks: about as many as a chart has room for

const ROOMY = 4; // ranks whose names are written out

export type Style = Pick<Line, "key" | "name" | "colour"> & { readonly dash?: readonly number[] };

export function lineOf(style: Style, points: Points, smooth = 0): Line {
  const { xs, ys } = points;
  return { ...style, xs, ys, ...(smooth > 0 ? { smooth: smoothOf(points, smooth) } : {}) };
}

/** A line for each rank that is to be shown, each in its colour on all charts. `alone` names that of a job of one rank. */
export function rankLines(
  of: ByRank,
  options: ChartOptions,
  { alone, isSmooth }: { alone: string; isSmooth?: boolean },
): Line[] {
  const smooth = isSmooth ? options.smooth : 0;
  const ranks = [...of].filter(([rank]) => rank >= 0 && (typeof options.ranks !== "number" || rank === options.ranks));
  if (options.ranks === "mean" && ranks.length > 1) {
    const mean = meanOf(
      ranks.map(([, points]) => points),
      PARTS,
    );
    return [lineOf({ key: "mean", name: `mean of ${ranks.length} ranks`, colour: runColour(0) }, mean, smooth)];
  }
  const nameOf = (rank: number): string =>
    options.count === 1 ? alone : options.count > ROOMY ? `r${rank}` : `rank ${rank}`;
  return ranks
    .toSorted(([a], [b]) => a - b)
    .map(([rank, points]) => lineOf(styleOf(rank, `r${rank}`, nameOf(rank)), points, smooth));
}

/** The colour and the dash of what has this place among others, on all charts. */
export function styleOf(place: number, key: string, name: string): Style {
  const dash = runDash(place);
  return { key, name, colour: runColour(place), ...(dash.length > 0 ? { dash } : {}) };
}
