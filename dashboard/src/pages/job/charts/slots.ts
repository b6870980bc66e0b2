// The charts of a job's utilization: of its slots and of their hosts.

import type { SampleMetric } from "../../../api/types.ts";
import { number } from "../../../format.ts";
import { type ByRank, type Chart, type ChartOptions, lineOf, rankLines, styleOf } from "./chart.ts";
import type { Metrics } from "./curves.ts";
import { shareOf } from "./means.ts";
import type { Points } from "./points.ts";
import { bytesPerSecond, degrees, percents, slowedLevel, slowedWords, watts } from "./quantities.ts";

/** A metric of the slots, by rank, or of the hosts, by name. */
export interface Sampled<K> {
  readonly pointsByKey: ReadonlyMap<K, Points>;
  /** The greatest limit of any of them. */
  readonly limit: number | null;
}

export interface Samples {
  readonly slots: ReadonlyMap<string, Sampled<number>>;
  readonly hosts: ReadonlyMap<string, Sampled<string>>;
}

type Form = Omit<Chart, "lines" | "key"> & {
  /** The axis reaches up to the limit. */
  readonly hasLimit?: boolean;
  /** It varies quickly, so it is smoothed. */
  readonly isNoisy?: boolean;
};

/** By metric of the api. A metric without a form has no chart. */
type Forms = { readonly [metric in SampleMetric]?: Form };

export const SLOTS: Forms = {
  gpu_percent: { title: "GPU utilization", format: percents, yFrom: 0, yTo: 100, isNoisy: true },
  gpu_memory_bytes: { title: "GPU memory", unit: "bytes", yFrom: 0, hasLimit: true },
  gpu_power_w: { title: "GPU power", format: watts, yFrom: 0, isNoisy: true },
  cpu_percent: { title: "CPU, % of a core", format: percents, yFrom: 0, isNoisy: true },
  memory_bytes: { title: "Memory", unit: "bytes", yFrom: 0 },
};

const GPUS: Forms = {
  gpu_temperature_c: { title: "GPU temperature", format: degrees },
  gpu_sm_clock_mhz: { title: "GPU clock, MHz", format: number },
  gpu_throttle: { title: "GPU slowed down", format: slowedWords, yFrom: 0, yTo: 3 },
};

const BYTES_PER_S = { unit: "bytes", format: bytesPerSecond, yFrom: 0, isNoisy: true } as const;

export const HOSTS: Forms = {
  cpu_percent: { title: "CPU, % of all cores", format: percents, yFrom: 0, yTo: 100, isNoisy: true },
  memory_bytes: { title: "Memory in use", unit: "bytes", yFrom: 0, hasLimit: true },
  network_received_bytes_per_s: { title: "Network, received", ...BYTES_PER_S },
  network_sent_bytes_per_s: { title: "Network, sent", ...BYTES_PER_S },
  disk_read_bytes_per_s: { title: "Disks, read", ...BYTES_PER_S },
  disk_written_bytes_per_s: { title: "Disks, written", ...BYTES_PER_S },
};

/** The metrics to request for these groups of charts. */
export function metricsOf(open: ReadonlySet<string>): string[] {
  const forms = { slots: SLOTS, gpus: GPUS, hosts: HOSTS };
  const names = Object.entries(forms).flatMap(([group, of]) => (open.has(group) ? Object.keys(of) : []));
  return [...new Set(names)];
}

export function slotCharts({ slots }: Samples, metrics: Metrics, options: ChartOptions): Chart[] {
  return [...chartsOf(SLOTS, slots, linesWith(options)), ...waitingChart(metrics, options)];
}

export function gpuCharts({ slots }: Samples, options: ChartOptions): Chart[] {
  const levels = slots.get("gpu_throttle");
  const shown = levels === undefined ? slots : new Map(slots).set("gpu_throttle", inLevels(levels));
  return chartsOf(GPUS, shown, linesWith(options));
}

export function hostCharts({ hosts }: Samples, { smooth }: ChartOptions): Chart[] {
  return chartsOf(HOSTS, hosts, (of, isNoisy) =>
    [...of].map(([host, points], i) => lineOf(styleOf(i, `h:${host}`, host), points, isNoisy ? smooth : 0)),
  );
}

/** Slots that are shares of a CPU have no GPU metrics. */
export function hasGpus({ slots }: Samples): boolean {
  return [...slots.keys()].some((metric) => metric.startsWith("gpu_"));
}

function linesWith(options: ChartOptions) {
  return (of: ByRank, isSmooth: boolean): Chart["lines"] => rankLines(of, options, { alone: "rank 0", isSmooth });
}

function chartsOf<K>(
  forms: Forms,
  sampled: ReadonlyMap<string, Sampled<K>>,
  linesOf: (of: ReadonlyMap<K, Points>, isNoisy: boolean) => Chart["lines"],
): Chart[] {
  return Object.entries(forms).flatMap(([metric, { hasLimit, isNoisy = false, ...form }]) => {
    const found = sampled.get(metric);
    if (found === undefined) return [];
    const top = hasLimit && found.limit !== null ? { yTo: found.limit } : {};
    return [{ ...form, ...top, key: metric, lines: linesOf(found.pointsByKey, isNoisy) }];
  });
}

/** The share of each step that its rank waited for data. */
function waitingChart(metrics: Metrics, options: ChartOptions): Chart[] {
  const steps = metrics.get("step_time_s");
  const shares = new Map<number, Points>();
  for (const [rank, waited] of metrics.get("data_wait_s") ?? []) {
    const whole = steps?.get(rank);
    if (rank < 0 || whole === undefined) continue;
    const share = shareOf(waited, whole);
    shares.set(rank, { ...share, ys: share.ys.map((y) => 100 * y) });
  }
  const lines = rankLines(shares, options, { alone: "rank 0", isSmooth: true });
  if (lines.length === 0) return [];
  return [{ key: "waiting", title: "Waiting for data, % of a step", format: percents, yFrom: 0, lines }];
}

function inLevels({ pointsByKey, limit }: Sampled<number>): Sampled<number> {
  const levels = [...pointsByKey].map(
    ([rank, points]) => [rank, { ...points, ys: points.ys.map(slowedLevel) }] as const,
  );
  return { pointsByKey: new Map(levels), limit };
}
