// The sparklines of the rows in view: one metric of each job, read with one request, and again as they grow.

import { type ReadonlySignal, type Signal, signal } from "@preact/signals";
import type { Answer } from "../../api/client.ts";
import type { MetricSeries } from "../../api/types.ts";
import { pathWith } from "../../query.ts";
import { metricOf } from "./figures.ts";
import type { Row } from "./row.ts";

const MOST_POINTS = 40; // more points than a cell has pixels add nothing
const MOST_NAMES = 20; // the api's limit for one answer
const SETTLED_MS = 80; // rows that are only scrolled past are not requested
const GROWN_MS = 2000; // between two reads of curves that are already shown
const AFTER_FAILURE_MS = 5000;

export interface Curve {
  /** The state of the job when it was read: see `stateOf`. */
  readonly state: string;
  readonly x: readonly number[];
  readonly y: readonly (number | null)[];
}

interface ManyMetrics {
  readonly jobs: readonly { readonly id: string; readonly series: readonly MetricSeries[] }[];
}

export type FetchMetrics = (path: string, etag: string | null) => Promise<Answer<ManyMetrics>>;

/** The state that a curve depends on: the epoch of a live job, the revision of an ended one. */
export function stateOf(row: Row, metric: string): string {
  return `${row.ended_at === null ? `${row.attempt}/${row.epoch}` : `ended ${row.revision}`} ${metricOf(row, metric)}`;
}

/** The rows whose curve is missing or out of date. */
export function missing(rows: readonly Row[], byJob: ReadonlyMap<string, Curve>, metric: string): Row[] {
  return rows.filter(
    (row) => row.attempt > 0 && metricOf(row, metric) !== null && byJob.get(row.id)?.state !== stateOf(row, metric),
  );
}

/** The curves of one metric, or, if it is empty, of the metric that counts for each job. */
export class Curves {
  readonly #metric: string;
  readonly #fetchMetrics: FetchMetrics;
  readonly #byJob: Signal<ReadonlyMap<string, Curve>> = signal(new Map());
  #rows: readonly Row[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isReading = false;
  #newest: { path: string; etag: string | null } | null = null;

  constructor(metric: string, fetchMetrics: FetchMetrics) {
    this.#metric = metric;
    this.#fetchMetrics = fetchMetrics;
  }

  /** The curves that were read, by job. */
  get byJob(): ReadonlySignal<ReadonlyMap<string, Curve>> {
    return this.#byJob;
  }

  /** Read the missing curves of these rows soon. */
  want(rows: readonly Row[]): void {
    this.#rows = rows;
    this.#restIfAny(GROWN_MS);
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#rows = [];
  }

  /** Read the missing curves with one request. */
  async load(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const missingRows = missing(this.#rows, this.#byJob.peek(), this.#metric);
    if (missingRows.length === 0 || this.#isReading) return;
    const nameOf = (row: Row): string => metricOf(row, this.#metric) ?? "";
    const name = [...new Set(missingRows.map(nameOf))].slice(0, MOST_NAMES).sort();
    const rows = missingRows.filter((row) => name.includes(nameOf(row)));
    const job = rows.map((row) => row.id).sort();
    const path = pathWith("/v1/metrics", { job, name, rank: -1, axis: "epoch", max_points: MOST_POINTS });
    this.#isReading = true;
    let restMs = GROWN_MS;
    try {
      const answer = await this.#fetchMetrics(path, this.#newest?.path === path ? this.#newest.etag : null);
      this.#newest = { path, etag: answer.etag };
      this.#take(rows, answer.status === 304 ? null : answer.data);
    } catch {
      restMs = AFTER_FAILURE_MS; // another part of the page shows that the api is away
    }
    this.#isReading = false;
    this.#restIfAny(restMs);
  }

  #restIfAny(ms: number): void {
    const byJob = this.#byJob.peek();
    const rows = missing(this.#rows, byJob, this.#metric);
    if (rows.length === 0) return;
    if (ms === GROWN_MS && rows.some((row) => !byJob.has(row.id))) {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => void this.load(), SETTLED_MS);
    } else this.#timer ??= setTimeout(() => void this.load(), ms);
  }

  /** Store an answer; null means that nothing changed. A job without the metric gets a curve without points. */
  #take(rows: readonly Row[], answer: ManyMetrics | null): void {
    const curves = new Map(this.#byJob.peek());
    const seriesById = new Map(answer?.jobs.map(({ id, series }) => [id, series]));
    for (const row of rows) {
      const before = curves.get(row.id);
      const metric = metricOf(row, this.#metric);
      const series = seriesById.get(row.id)?.find(({ name }) => name === metric);
      const { x, y } = (answer === null ? before : series) ?? { x: [], y: [] };
      curves.set(row.id, { state: stateOf(row, this.#metric), x, y });
    }
    this.#byJob.value = curves;
  }
}
