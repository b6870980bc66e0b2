// The charts of a job's metrics: learning and speed.

import type { Line } from "../../../charts/lines.ts";
import { runColour } from "../../../charts/palette.ts";
import { number, words } from "../../../format.ts";
import { type ByRank, type Chart, type ChartOptions, lineOf, rankLines, type Style } from "./chart.ts";
import { shortTime } from "./quantities.ts";

/** The points of metrics, by name and rank; -1 is over all ranks, with one point for each epoch. */
export type Metrics = ReadonlyMap<string, ByRank>;

const ALL_RANKS = -1;
const NONE: ByRank = new Map();

/** Metrics with a chart of their own, and metrics that are not shown. */
const OF_SPEED = new Set(["samples_per_s", "step_time_s", "data_wait_s", "allreduce_s"]);
const UNSHOWN = new Set(["epoch_s", "epoch_data_wait_s", "epoch_allreduce_s"]);
const FIRST = ["loss", "accuracy"];

export function learningCharts(metrics: Metrics, options: ChartOptions): Chart[] {
  const names = new Set([...metrics.keys()].map((name) => name.replace(/^val_/, "")));
  const customNames = [...names].filter((name) => !isBuiltIn(name)).toSorted();
  const charts = [...FIRST, ...customNames].map((name) => curve(metrics, name, options));
  const rate = overAll(metrics.get("learning_rate"), { key: "train", name: "epoch" });
  charts.push({ key: "learning_rate", title: "Learning rate", format: number, lines: rate });
  return charts.filter((chart) => chart.lines.length > 0);
}

function isBuiltIn(name: string): boolean {
  return (
    [...FIRST, "learning_rate"].includes(name) || OF_SPEED.has(name) || UNSHOWN.has(name) || /^step_time_p/.test(name)
  );
}

/** A metric's training and validation in one chart. */
function curve(metrics: Metrics, name: string, options: ChartOptions): Chart {
  const ranks = metrics.get(name) ?? NONE;
  const isLoss = name.endsWith("loss");
  return {
    key: name,
    title: titled(words(name)),
    isLog: isLoss && options.logs.has("losses"),
    format: number,
    lines: [
      ...rankLines(ranks, options, { alone: "each step", isSmooth: true }),
      ...overAll(ranks, { key: "train", name: "train" }),
      ...overAll(metrics.get(`val_${name}`), { key: "val", name: "validation", colour: "run-3", dash: [6, 3] }),
    ],
  };
}

export function speedCharts(metrics: Metrics, options: ChartOptions): Chart[] {
  const ofRanks = (key: string, title: string, alone: string, isSmooth: boolean): Chart => ({
    key,
    title,
    isLog: options.logs.has("times"),
    format: shortTime,
    lines: rankLines(metrics.get(key) ?? NONE, options, { alone, isSmooth }),
  });
  const charts: Chart[] = [
    { key: "samples_per_s", title: "Throughput, samples/s", yFrom: 0, lines: throughput(metrics, options) },
    ofRanks("step_time_s", "Step time", "each step", true),
    ofRanks("data_wait_s", "Waiting for data, of a step", "each step", true),
    ...(options.count > 1 ? [ofRanks("allreduce_s", "Allreduce, of a step", "each step", true)] : []),
    ofRanks("step_time_p50_s", "Step time, median of an epoch", "epoch", false),
    ofRanks("step_time_p95_s", "Step time, 95th percentile", "epoch", false),
  ];
  return charts.filter((chart) => chart.lines.length > 0);
}

/** Each rank reports the throughput of all ranks, so one line is enough. */
function throughput(metrics: Metrics, options: ChartOptions): Line[] {
  const ranks = metrics.get("samples_per_s") ?? NONE;
  const first = ranks.get(Math.min(...[...ranks.keys()].filter((rank) => rank !== ALL_RANKS)));
  const steps = first && lineOf({ key: "step", name: "each step", colour: runColour(0) }, first, options.smooth);
  return [...(steps ? [steps] : []), ...overAll(ranks, { key: "train", name: "epoch" })];
}

/** The line over all ranks. By default its colour is not that of a rank. */
function overAll(ranks: ByRank | undefined, style: Omit<Style, "colour"> & Partial<Style>): Line[] {
  const points = ranks?.get(ALL_RANKS);
  return points === undefined ? [] : [lineOf({ colour: "text", ...style }, points)];
}

function titled(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
