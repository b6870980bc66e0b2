// The data of a job's chart: its lines and the format of its values.

import type { Line } from "../../../charts/lines.ts";
import { runColour, runDash } from "../../../charts/palette.ts";
import type { PlotProps } from "../../../charts/plot.tsx";
import { type Smoothing, weightOf } from "../../../charts/smoothing.ts";
import type { Unit } from "../../../charts/ticks.ts";
import type { Before } from "./before.ts";
import { meanOf, smoothOf } from "./means.ts";
import type { Points } from "./points.ts";
import type { Ranks } from "./view.ts";

/** What differs from the other charts of the page. */
type Differing = Pick<PlotProps, "scope" | "marks" | "isLogX" | "tools">;

export interface Chart extends Partial<Differing> {
  readonly key: string;
  readonly title: string;
  readonly lines: readonly Line[];
  readonly format?: (value: number) => string;
  readonly unit?: Unit;
  readonly isLog?: boolean;
  readonly yFrom?: number;
  readonly yTo?: number;
  /** The values are shares such as an accuracy. */
  readonly isShare?: boolean;
}

/** The settings of the charts that their lines depend on. */
export interface ChartOptions {
  readonly smooth: Smoothing;
  readonly ranks: Ranks;
  /** How many ranks the job has. */
  readonly count: number;
  /** The groups of charts with a logarithmic scale. */
  readonly logs: ReadonlySet<string>;
  /** The metric whose chart comes first. */
  readonly goal: string | null;
  /** Whether the job runs a person's own code. */
  readonly isScript: boolean;
  /** The metrics that will come: their charts and lines have their places already. */
  readonly expected: ReadonlySet<string>;
  /** The job that the job continues. */
  readonly before?: Before | undefined;
}

/** By rank; -1 is over all ranks. */
export type ByRank = ReadonlyMap<number, Points>;

const PARTS = 300; // of a mean over ranks: about as many as a chart has room for

const ROOMY = 4; // ranks whose names are written out

export type Style = Pick<Line, "key" | "name" | "colour"> & { readonly dash?: readonly number[] };

export function lineOf(style: Style, points: Points, smooth: Smoothing = 0): Line {
  const { xs, ys } = points;
  return { ...style, xs, ys, ...(weightOf(smooth) > 0 ? { smooth: smoothOf(points, smooth) } : {}) };
}

export const NO_POINTS: Points = { xs: [], ys: [], bands: [] };

/**
 * A line for each rank to show, each with one colour on all charts. `alone` names the line of a job with one rank.
 * Lines that are expected are there, in the legend, before they have points.
 */
export function rankLines(
  reported: ByRank,
  options: ChartOptions,
  { alone, isSmooth, isExpected }: { alone: string; isSmooth?: boolean; isExpected?: boolean },
): Line[] {
  const of =
    isExpected && reported.size === 0
      ? new Map(Array.from({ length: options.count }, (_, rank) => [rank, NO_POINTS]))
      : reported;
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

/** The points of the rank to show, else the mean over all ranks; undefined without any. */
export function meanOfRanks(of: ByRank | undefined, ranks: Ranks): Points | undefined {
  const shown = [...(of ?? [])].filter(([rank]) => rank >= 0 && (typeof ranks !== "number" || rank === ranks));
  const points = shown.map(([, ofRank]) => ofRank);
  return points.length > 1 ? meanOf(points, PARTS) : points[0];
}

/** The colour and dash of a line at this position, the same on all charts. */
export function styleOf(place: number, key: string, name: string): Style {
  const dash = runDash(place);
  return { key, name, colour: runColour(place), ...(dash.length > 0 ? { dash } : {}) };
}
