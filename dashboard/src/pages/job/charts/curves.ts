// The charts of a job's metrics: learning and speed.

import type { Line } from "../../../charts/lines.ts";
import { runColour } from "../../../charts/palette.ts";
import { number } from "../../../format.ts";
import { isBetterLower, isMeasured, isShare, isTime, metricText } from "../../../metrics.ts";
import { linesBefore } from "./before.ts";
import { type ByRank, type Chart, type ChartOptions, lineOf, NO_POINTS, rankLines, type Style } from "./chart.ts";
import { shortTime } from "./quantities.ts";

/** The points of metrics, by name and rank; -1 is over all ranks, with one point for each epoch. */
export type Metrics = ReadonlyMap<string, ByRank>;

const ALL_RANKS = -1;
const NONE: ByRank = new Map();

const FIRST = ["loss", "accuracy"];

export function learningCharts(metrics: Metrics, options: ChartOptions): Chart[] {
  const { goal } = options;
  const own = [...metrics.keys()].filter((name) => !isMeasured(name) && (!isTime(name) || name === goal));
  const names = new Set(own.map(withoutPart).toSorted());
  for (const name of options.expected) names.add(withoutPart(name));
  const first = goal === null ? FIRST : [withoutPart(goal), ...FIRST];
  const charts = [...new Set([...first, ...names])].map((name) => curve(metrics, name, options));
  const rate = overAll(metrics.get("learning_rate"), { key: "train", name: "epoch" }, options.expected.size > 0);
  const rateBefore = linesBefore(options.before, "learning_rate", metrics.get("learning_rate") ?? NONE);
  charts.push({ key: "learning_rate", title: "Learning rate", format: number, lines: [...rate, ...rateBefore] });
  return charts.filter(({ lines }) => lines.length > 0);
}

/** The name without the part of the data that it was measured on: a metric shares a chart with its validation. */
function withoutPart(name: string): string {
  return name.replace(/^val_(?=.)/, "");
}

/** A metric's training and validation in one chart. */
function curve(metrics: Metrics, name: string, options: ChartOptions): Chart {
  const { expected } = options;
  const isExpected = expected.has(name);
  const [ranks, validation] = [metrics.get(name) ?? NONE, metrics.get(`val_${name}`) ?? NONE];
  return {
    key: name,
    title: titleOf(ranks.size === 0 ? `val_${name}` : name),
    isShare: isShare(name),
    isLog: isBetterLower(name) && options.logs.has("losses"),
    format: isTime(name) ? shortTime : number,
    lines: [
      ...rankLines(ranks, options, { alone: "each step", isSmooth: hasSteps(ranks, options), isExpected }),
      ...overAll(ranks, { key: "train", name: validation.size > 0 || isExpected ? "train" : "job" }, isExpected),
      ...rankLines(validation, options, { alone: "each step", isSmooth: hasSteps(validation, options) }).map(
        ofValidation,
      ),
      ...overAll(
        validation,
        { key: "val", name: "validation", colour: "run-3", dash: DASHES },
        expected.has(`val_${name}`),
      ),
      ...linesBefore(options.before, name, ranks),
      ...linesBefore(options.before, `val_${name}`, validation),
    ],
  };
}

const DASHES = [6, 3];

/**
 * Whether the lines of ranks have a value for each step. What rank 0 of a script reports once an epoch is the line over
 * all ranks. What its other ranks report once an epoch are lines of their own.
 */
function hasSteps(ranks: ByRank, { isScript }: ChartOptions): boolean {
  return !isScript || ranks.has(0) || !ranks.has(ALL_RANKS);
}

function ofValidation(line: Line): Line {
  return { ...line, key: `val ${line.key}`, name: `validation, ${line.name}`, dash: DASHES };
}

export function speedCharts(metrics: Metrics, options: ChartOptions): Chart[] {
  const ofRanks = (key: string, title: string, alone: string, isSmooth: boolean): Chart => ({
    key,
    title,
    isLog: options.logs.has("times"),
    format: shortTime,
    lines: rankLines(metrics.get(key) ?? NONE, options, { alone, isSmooth, isExpected: options.expected.size > 0 }),
  });
  const charts: Chart[] = [
    { key: "samples_per_s", title: "Throughput, samples/s", yFrom: 0, lines: throughput(metrics, options) },
    ofRanks("step_time_s", "Step time", "each step", true),
    ofRanks("data_wait_s", "Waiting for data, of a step", "each step", true),
    ...(options.count > 1 ? [ofRanks("allreduce_s", "Allreduce, of a step", "each step", true)] : []),
    ofRanks("step_time_p50_s", "Step time, median of an epoch", "epoch", false),
    ofRanks("step_time_p95_s", "Step time, 95th percentile", "epoch", false),
    ...ownTimes(metrics, options),
  ];
  return charts.filter(({ lines }) => lines.length > 0 || options.expected.size > 0);
}

/** The times that a job reports itself, such as the phases of a script. */
function ownTimes(metrics: Metrics, options: ChartOptions): Chart[] {
  const names = [...metrics.keys()].filter((name) => isTime(name) && !isMeasured(name) && name !== options.goal);
  return [...new Set(names.map(withoutPart).toSorted())].map((name) => ({
    ...curve(metrics, name, options),
    isLog: options.logs.has("times"),
  }));
}

/** Each rank reports the throughput of all ranks, so one line is enough. */
function throughput(metrics: Metrics, options: ChartOptions): Line[] {
  const ranks = metrics.get("samples_per_s") ?? NONE;
  const first = ranks.get(Math.min(...[...ranks.keys()].filter((rank) => rank !== ALL_RANKS)));
  const points = first ?? (options.expected.size > 0 ? NO_POINTS : undefined);
  const steps = points && lineOf({ key: "step", name: "each step", colour: runColour(0) }, points, options.smooth);
  return [...(steps ? [steps] : []), ...overAll(ranks, { key: "train", name: "epoch" }, options.expected.size > 0)];
}

/** The line over all ranks. By default its colour is not that of a rank. */
function overAll(
  ranks: ByRank | undefined,
  style: Omit<Style, "colour"> & Partial<Style>,
  isExpected: boolean,
): Line[] {
  const points = ranks?.get(ALL_RANKS) ?? (isExpected ? NO_POINTS : undefined);
  return points === undefined ? [] : [lineOf({ colour: "text", ...style }, points)];
}

/** Loss and Accuracy, and the names of other metrics as they are. */
function titleOf(name: string): string {
  const text = metricText(name);
  return FIRST.includes(name) ? text.charAt(0).toUpperCase() + text.slice(1) : text;
}
