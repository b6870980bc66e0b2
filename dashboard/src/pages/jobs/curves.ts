// The little curves of the rows in view: one metric of many jobs, read with one request, and again where it grew.

import { type ReadonlySignal, type Signal, signal } from "@preact/signals";
import type { Answer } from "../../api/client.ts";
import type { MetricSeries } from "../../api/types.ts";
import { pathWith } from "../../query.ts";
import type { Row } from "./row.ts";

const MOST_POINTS = 40; // more than a cell has pixels for would only be thinned again
const SETTLED_MS = 80; // rows that fly by are not asked for
const GROWN_MS = 2000; // between two reads of curves that are drawn already
const AFTER_FAILURE_MS = 5000;

export interface Curve {
  /** What of its job it was read at: see `stateOf`. */
  readonly state: string;
  readonly x: readonly number[];
  readonly y: readonly (number | null)[];
}

interface ManyMetrics {
  readonly jobs: readonly { readonly id: string; readonly series: readonly MetricSeries[] }[];
}

export type FetchMetrics = (path: string, etag: string | null) => Promise<Answer<ManyMetrics>>;

/** What a curve depends on: of a live job it grows with every epoch, of an ended one with its revision at most. */
export function stateOf(row: Row): string {
  return row.ended_at === null ? `${row.attempt}/${row.epoch}` : `ended ${row.revision}`;
}

/** Which of these rows have a curve that is not known as it is by now. */
export function missing(rows: readonly Row[], known: ReadonlyMap<string, Curve>): Row[] {
  return rows.filter((row) => row.attempt > 0 && known.get(row.id)?.state !== stateOf(row));
}

/** The curves of one metric. */
export class Curves {
  readonly #metric: string;
  readonly #fetchMetrics: FetchMetrics;
  readonly #known: Signal<ReadonlyMap<string, Curve>> = signal(new Map());
  #rows: readonly Row[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isAsking = false;
  #newest: { path: string; etag: string | null } | null = null;

  constructor(metric: string, fetchMetrics: FetchMetrics) {
    this.#metric = metric;
    this.#fetchMetrics = fetchMetrics;
  }

  /** By job; those that were read. */
  get known(): ReadonlySignal<ReadonlyMap<string, Curve>> {
    return this.#known;
  }

  /** Read the curves of these rows soon, where they are not known. */
  want(rows: readonly Row[]): void {
    this.#rows = rows;
    this.#restIfAny(GROWN_MS);
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#rows = [];
  }

  /** Ask for what is missing, with one request. */
  async load(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const rows = missing(this.#rows, this.#known.peek());
    if (rows.length === 0 || this.#isAsking) return;
    const job = rows.map((row) => row.id).sort();
    const path = pathWith("/v1/metrics", { job, name: this.#metric, rank: -1, axis: "epoch", max_points: MOST_POINTS });
    this.#isAsking = true;
    let restMs = GROWN_MS;
    try {
      const answer = await this.#fetchMetrics(path, this.#newest?.path === path ? this.#newest.etag : null);
      this.#newest = { path, etag: answer.etag };
      this.#take(rows, answer.status === 304 ? null : answer.data);
    } catch {
      restMs = AFTER_FAILURE_MS; // the page says elsewhere that the api is away
    }
    this.#isAsking = false;
    this.#restIfAny(restMs);
  }

  #restIfAny(ms: number): void {
    const known = this.#known.peek();
    const rows = missing(this.#rows, known);
    if (rows.length === 0) return;
    if (ms === GROWN_MS && rows.some((row) => !known.has(row.id))) {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => void this.load(), SETTLED_MS);
    } else this.#timer ??= setTimeout(() => void this.load(), ms);
  }

  /** Take an answer; null where it says that nothing changed. A job without the metric has a curve without points. */
  #take(rows: readonly Row[], answer: ManyMetrics | null): void {
    const curves = new Map(this.#known.peek());
    const seriesById = new Map(answer?.jobs.map(({ id, series }) => [id, series[0]]));
    for (const row of rows) {
      const before = curves.get(row.id);
      const { x, y } = (answer === null ? before : seriesById.get(row.id)) ?? { x: [], y: [] };
      curves.set(row.id, { state: stateOf(row), x, y });
    }
    this.#known.value = curves;
  }
}
