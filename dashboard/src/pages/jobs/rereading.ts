// Reads jobs again after an event that does not contain all of the change, many with one request.

import { Problem } from "../../api/problem.ts";
import { deletedIds } from "../../deleted.ts";
import type { Row } from "./row.ts";

const FEW = 3; // with at most so many stale jobs on a page, they are read one by one
const AT_ONCE = 6; // requests in one round
const ROUND_MS = 1000;
const AFTER_FAILURE_MS = 10_000;

export interface Stale {
  readonly id: string;
  /** The cursor of its page, as in `Row`. */
  readonly page: string | null;
  /** Whether that page no longer contains it. */
  readonly isAlone: boolean;
}

export interface Reads {
  readonly pages: readonly (string | null)[];
  readonly jobs: readonly string[];
}

/** The next reads, so that few requests read as many of these jobs as possible. */
export function readsOf(stale: Iterable<Stale>): Reads {
  const byPage = new Map<string | null, string[]>();
  const alone: string[] = [];
  for (const { id, page, isAlone } of stale) {
    const together = byPage.get(page);
    if (isAlone) alone.push(id);
    else if (together === undefined) byPage.set(page, [id]);
    else together.push(id);
  }
  const pages = [...byPage].filter(([, ids]) => ids.length > FEW).map(([page]) => page);
  const few = [...byPage.values()].filter((ids) => ids.length <= FEW).flat();
  const first = pages.slice(0, AT_ONCE);
  return { pages: first, jobs: [...few, ...alone].slice(0, AT_ONCE - first.length) };
}

interface Work {
  readonly readPage: (cursor: string | null) => Promise<readonly Row[]>;
  readonly readJob: (id: string) => Promise<Row>;
  readonly take: (rows: readonly Row[]) => void;
  /** The job no longer exists. */
  readonly drop: (id: string) => void;
}

/** Reads the added jobs in rounds of a second. */
export class Rereader {
  readonly #work: Work;
  readonly #stale = new Map<string, Stale>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(work: Work) {
    this.#work = work;
  }

  add(rows: readonly Row[]): void {
    for (const { id, page } of rows) this.#stale.set(id, { id, page, isAlone: false });
    this.#restIfAny(ROUND_MS);
  }

  /** Remove jobs that were read elsewhere. */
  settle(rows: readonly Row[]): void {
    for (const row of rows) this.#stale.delete(row.id);
  }

  close(): void {
    this.#stale.clear();
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** One round. */
  async round(): Promise<void> {
    for (const id of deletedIds.peek()) this.#stale.delete(id);
    const { pages, jobs } = readsOf(this.#stale.values());
    const tries = [...pages.map((cursor) => this.#readPage(cursor)), ...jobs.map((id) => this.#readJob(id))];
    const wereRead = await Promise.all(tries);
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#restIfAny(wereRead.every(Boolean) ? ROUND_MS : AFTER_FAILURE_MS);
  }

  #restIfAny(ms: number): void {
    if (this.#stale.size > 0) this.#timer ??= setTimeout(() => void this.round(), ms);
  }

  async #readPage(cursor: string | null): Promise<boolean> {
    const requested = [...this.#stale.values()].filter(({ page, isAlone }) => page === cursor && !isAlone);
    try {
      const rows = await this.#work.readPage(cursor);
      this.settle(rows);
      this.#work.take(rows);
    } catch {
      return false;
    }
    for (const { id } of requested) {
      const still = this.#stale.get(id);
      if (still !== undefined) this.#stale.set(id, { ...still, isAlone: true });
    }
    return true;
  }

  async #readJob(id: string): Promise<boolean> {
    try {
      this.#work.take([await this.#work.readJob(id)]);
    } catch (error) {
      if (!(error instanceof Problem) || error.status !== 404) return false;
      this.#work.drop(id);
    }
    this.#stale.delete(id);
    return true;
  }
}
