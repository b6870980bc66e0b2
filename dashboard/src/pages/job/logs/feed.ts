// The lines of a log that were read: first the newest, older ones on scrolling, new ones as they are printed.
// New lines are polled once a second: the service gets them about as often.

import { Problem } from "../../../api/problem.ts";
import type { LogLevel, LogLine, LogView } from "../../../api/types.ts";
import { pathWith } from "../../../query.ts";
import { isAtLeast, plain, withNewer, withOlder } from "./lines.ts";

const FIRST = 500; // lines in the first request
const PAGE = 2000;
const MOST = 10_000; // the api's limit for one answer
const ALL = { search: "", level: null, since: "", until: "" };

export interface Source {
  readonly job: string;
  /** -1 is the launcher. None are all. */
  readonly ranks: readonly number[];
  /** Null is all. */
  readonly attempt: number | null;
  /** Only lines of this level, and more serious ones. */
  readonly level: LogLevel | null;
  /** Only lines that contain this text. */
  readonly search: string;
  /** Only lines from this time on, and before that one, in RFC 3339; empty: any. */
  readonly since: string;
  readonly until: string;
}

/** The path of a page of the lines of a source. */
export function pathOf({ job, ranks, ...filter }: Source, params: Readonly<Record<string, number>>): string {
  return pathWith(`/v1/jobs/${job}/logs`, { ...params, rank: ranks, ...filter });
}

export interface Reading {
  readonly lines: readonly LogLine[];
  /** Whether there are older lines; null before the first answer. */
  readonly hasOlder: boolean | null;
  readonly problem: Problem | undefined;
}

/** Reads a page of lines; null if nothing is new since the last request of the same page. */
export type FetchPage = (path: string) => Promise<LogView | null>;

export class LogFeed {
  readonly #source: Source;
  readonly #fetchPage: FetchPage;
  /** Called when lines or a problem have come. */
  onChange: () => void = () => {};
  #reading: Reading = { lines: [], hasOlder: null, problem: undefined };
  #before: number | null = null;
  #after = 0;
  #goingBack: Promise<void> | null = null;

  constructor(source: Source, fetchPage: FetchPage) {
    this.#source = source;
    this.#fetchPage = fetchPage;
  }

  get reading(): Reading {
    return this.#reading;
  }

  /** Read the lines since the last call; the first call reads the newest lines. */
  async newer(): Promise<void> {
    await this.#tried(async () => {
      if (this.#reading.hasOlder === null) await this.#open();
      for (;;) {
        // All lines: those that do not match would be looked at again each time.
        const page = await this.#page({ after: this.#after, limit: MOST }, ALL);
        if (page === null) return;
        this.#after = page.next_after;
        this.#show({ lines: withNewer(this.#reading.lines, cleaned(page.items).filter(this.#isMatch)) });
        if (page.items.length < MOST) return;
      }
    });
  }

  /** Read a page of older lines. One request runs at a time. */
  older(limit = PAGE): Promise<void> {
    this.#goingBack ??= this.#tried(async () => {
      if (this.#before === null) return;
      const page = await this.#page({ before: this.#before, limit });
      if (page === null) return;
      this.#before = page.previous_before ?? null;
      this.#show({
        lines: withOlder(this.#reading.lines, cleaned(page.items)),
        hasOlder: this.#before !== null,
      });
    }).finally(() => {
      this.#goingBack = null;
    });
    return this.#goingBack;
  }

  /** Read older lines until a line is loaded. */
  async backTo(id: number): Promise<void> {
    for (;;) {
      const first = this.#reading.lines[0]?.id;
      if (first === undefined || first <= id) return;
      await this.older(MOST);
      if (this.#reading.lines[0]?.id === first) return; // there is no more, or a problem
    }
  }

  /** The newest line before the loaded ones that contains a text. */
  async matchBefore(text: string): Promise<number | null> {
    const first = this.#reading.lines[0]?.id;
    if (first === undefined || this.#before === null) return null;
    let matchId: number | null = null;
    await this.#tried(async () => {
      const match = await this.#page({ before: first, limit: 1 }, { search: text });
      matchId = match?.items[0]?.id ?? null;
    });
    return matchId;
  }

  async #open(): Promise<void> {
    const { search, level, since, until } = this.#source;
    const newest = search + (level ?? "") + since + until === "" ? null : await this.#page({ tail: 1 }, ALL);
    const page = await this.#page({ tail: FIRST });
    if (page === null) return;
    this.#before = page.previous_before ?? null;
    this.#after = newest?.next_after ?? page.next_after;
    this.#show({ lines: cleaned(page.items), hasOlder: this.#before !== null });
  }

  #page(params: Record<string, number>, change: Partial<Source> = {}): Promise<LogView | null> {
    return this.#fetchPage(pathOf({ ...this.#source, ...change }, params));
  }

  readonly #isMatch = ({ level, text, at }: LogLine): boolean => {
    const source = this.#source;
    const time = Date.parse(at);
    return (
      isAtLeast(level, source.level) &&
      text.toLowerCase().includes(source.search.toLowerCase()) &&
      !(time < Date.parse(source.since)) && // no time is not a number, which no comparison holds for
      !(time >= Date.parse(source.until))
    );
  };

  async #tried(work: () => Promise<void>): Promise<void> {
    try {
      await work();
      if (this.#reading.problem !== undefined) this.#show({ problem: undefined });
    } catch (error) {
      this.#show({ problem: error instanceof Problem ? error : new Problem(-1, "unreadable", String(error)) });
    }
  }

  #show(change: Partial<Reading>): void {
    this.#reading = { ...this.#reading, ...change };
    this.onChange();
  }
}

function cleaned(lines: readonly LogLine[]): LogLine[] {
  return lines.map((line) => ({ ...line, text: plain(line.text) }));
}
