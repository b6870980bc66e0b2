// A person's own charts with the metrics of a job. Pure.

import { inLogX } from "../../../charts/lines.ts";
import { curveOf } from "../../../charts/own/curve.ts";
import type { Formula } from "../../../charts/own/formula.ts";
import { foundIn, GPUS } from "../../../charts/own/found.ts";
import { type OwnChart, textOf, titleOf } from "../../../charts/own/own_chart.ts";
import { number } from "../../../format.ts";
import { type Chart, type ChartOptions, lineOf, meanOfRanks, NO_POINTS, styleOf } from "./chart.ts";
import type { Metrics } from "./curves.ts";
import { withoutBias } from "./means.ts";
import type { Band, Points } from "./points.ts";

const MOST = 100; // lines of a chart

/** A line for each formula that the job has the metrics of; while it is live, also for one that it may get. */
export function ownChart(chart: OwnChart, metrics: Metrics, options: ChartOptions, isLive: boolean): Chart {
  const found = foundIn(chart.list, [...metrics.keys()]);
  const formulas = new Map(found.flatMap((each) => each.formulas).map((formula) => [formula.text, formula]));
  const drawn = [...formulas.values()].slice(0, MOST).flatMap((formula) => {
    const curve = curveIn(formula, metrics, options) ?? (isLive ? { points: NO_POINTS, isOfSteps: false } : undefined);
    return curve ? [{ ...curve, text: formula.text }] : [];
  });
  const lines = drawn.map(({ text, points, isOfSteps }, place) =>
    lineOf(styleOf(place, text.replaceAll(",", " "), text), points, isOfSteps ? options.smooth : 0),
  );
  return {
    key: textOf(chart),
    title: titleOf(chart),
    lines: chart.isLogX ? lines.map(inLogX) : lines,
    isLog: chart.isLog,
    format: number,
  };
}

/**
 * The curve of a formula, of the points of steps if all of its metrics have some: of one rank, or the mean of the ranks.
 * Else of the points over all ranks, if all have these. Several thinned series meet in the means of their bands.
 */
function curveIn(formula: Formula, metrics: Metrics, { ranks, count }: ChartOptions) {
  const own = formula.names.filter((name) => metrics.has(name));
  const ofSteps = (name: string): Points | undefined => meanOfRanks(metrics.get(name), ranks);
  const overAll = (name: string): Points | undefined => metrics.get(name)?.get(-1);
  const isOfSteps = own.every(ofSteps);
  const usesSteps = isOfSteps || !own.every(overAll);
  const parts = new Map(own.map((name) => [name, (usesSteps ? ofSteps(name) : undefined) ?? overAll(name)]));
  const constant = (name: string): number | undefined => (name === GPUS ? count : undefined);
  const curve = curveOf(formula, (name) => {
    const part = parts.get(name);
    return part && own.length > 1 ? withoutBias(part) : (part ?? constant(name));
  });
  const bands = own.length === 1 ? (parts.get(own[0] as string)?.bands ?? []) : [];
  const meanIn = ({ mean }: Band): number =>
    formula.value((name) => (parts.has(name) ? mean : (constant(name) as number)));
  return curve && { points: { ...curve, bands: bands.map((band) => ({ ...band, mean: meanIn(band) })) }, isOfSteps };
}
