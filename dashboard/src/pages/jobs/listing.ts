// The jobs of one view, as they are loaded, polled and told of. A view of other jobs, or in another order, is another one.

import { type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { Problem } from "../../api/problem.ts";
import type { Job, Listed, Progress } from "../../api/types.ts";
import { EMPTY, type JobList, type News, withHead, withNews, without, withRows, withTail } from "./list.ts";
import { Rereader } from "./rereading.ts";
import { rowOf, type StreamedProgress, type StreamedState } from "./row.ts";
import { listPath, NEWEST_FIRST, type View } from "./view.ts";

export const PAGE_ROWS = 100;
const GATHERED_MS = 100; // what is told at about the same time is shown at once
const HEAD_MS = 2000; // between two reads of the first page that news gave rise to

export interface Sources {
  /** Read an answer of the api. */
  readonly read: <T>(path: string) => Promise<T>;
  /** Poll the first page now; it comes back through `takeHead`. */
  readonly pollHead: () => void;
}

export class Listing {
  readonly view: View;
  readonly #sources: Sources;
  readonly #list: Signal<JobList | null> = signal(null);
  readonly #newCount = signal(0);
  readonly #tail: Signal<"idle" | "loading" | Problem> = signal("idle");
  readonly #rereader: Rereader;
  #isAtTop = true;
  #heldBack: JobList | null = null;
  #unseen = new Set<string>(); // new jobs that the order may have anywhere
  #states = new Map<string, StreamedState>();
  #progress = new Map<string, Progress>();
  #newsTimer: ReturnType<typeof setTimeout> | undefined;
  #headTimer: ReturnType<typeof setTimeout> | undefined;
  #headAt = 0;

  constructor(view: View, sources: Sources) {
    this.view = view;
    this.#sources = sources;
    this.#rereader = new Rereader({
      readPage: async (cursor) => (await this.#readPage(cursor)).rows,
      readJob: async (id) => rowOf(await sources.read<Job>(`/v1/jobs/${id}`)),
      take: (rows) => this.#change((list) => withRows(list, rows)),
      drop: (id) => this.#change((list) => without(list, (row) => row.id === id)),
    });
  }

  /** Null until the first page has come. */
  get list(): ReadonlySignal<JobList | null> {
    return this.#list;
  }

  /** How many new jobs are not shown: rows under the reader's eyes do not move. */
  get newCount(): ReadonlySignal<number> {
    return this.#newCount;
  }

  /** What became of the page behind the last row. */
  get tail(): ReadonlySignal<"idle" | "loading" | Problem> {
    return this.#tail;
  }

  /** Take the first page as it was read just now. */
  takeHead(answer: Listed<Job>): void {
    const head = { rows: answer.items.map((job) => rowOf(job)), nextCursor: answer.next_cursor };
    this.#headAt = Date.now();
    this.#rereader.settle(head.rows);
    const before = this.#list.peek();
    if (before === null || this.#isAtTop) {
      this.#showHead(head);
      return;
    }
    this.#heldBack = head;
    this.#list.value = withRows(before, head.rows);
    this.#count();
  }

  /** Say whether the reader sees the first row. */
  setAtTop(isAtTop: boolean): void {
    this.#isAtTop = isAtTop;
    if (isAtTop && this.#heldBack !== null) this.#showHead(this.#heldBack);
  }

  /** Load the page behind the last row, unless it is on its way. */
  async more(): Promise<void> {
    const next = this.#list.peek()?.nextCursor ?? null;
    if (next === null || this.#tail.peek() === "loading") return;
    this.#tail.value = "loading";
    try {
      const tail = await this.#readPage(next);
      this.#change((list) => (list.nextCursor === next ? withTail(list, tail) : list));
      this.#tail.value = "idle";
    } catch (error) {
      this.#tail.value = error instanceof Problem ? error : new Problem(-1, "unreadable", "Unreadable answer");
    }
  }

  /** Take what `GET /v1/events` tells of a job that changed. */
  takeState(told: StreamedState): void {
    this.#states.set(told.id, told);
    this.#newsTimer ??= setTimeout(() => this.takeNews(), GATHERED_MS);
  }

  /** Take what it tells of one that runs. */
  takeProgress({ id, progress }: StreamedProgress): void {
    this.#progress.set(id, progress);
    this.#newsTimer ??= setTimeout(() => this.takeNews(), GATHERED_MS);
  }

  /** Show what was told since the last time. */
  takeNews(): void {
    const news: News = { states: this.#states, progress: this.#progress };
    clearTimeout(this.#newsTimer);
    this.#newsTimer = undefined;
    this.#states = new Map();
    this.#progress = new Map();
    const before = this.#list.peek();
    if (before === null) return; // the page that comes is newer than all this
    const { list, stale } = withNews(before, news);
    const { statuses } = this.view;
    this.#list.value = without(list, (row) => statuses.length > 0 && !statuses.includes(row.status));
    this.#rereader.add(stale);
    this.#meet(news.states, list);
  }

  /** Let go of all that is yet to come. */
  close(): void {
    this.#rereader.close();
    clearTimeout(this.#newsTimer);
    clearTimeout(this.#headTimer);
  }

  /** Jobs that are told of and not in the list may be new, or belong into it by now. */
  #meet(states: News["states"], list: JobList): void {
    const known = new Set(list.rows.map((row) => row.id));
    const unknown = [...states.values()].filter((told) => !known.has(told.id));
    if (unknown.length === 0) return;
    this.#headTimer ??= setTimeout(
      () => {
        this.#headTimer = undefined;
        this.#sources.pollHead();
      },
      Math.max(GATHERED_MS, this.#headAt + HEAD_MS - Date.now()),
    );
    const { statuses, search, study } = this.view;
    if (search !== "" || study !== "") return; // the stream does not know these filters
    const newest = list.rows.reduce((latest, row) => Math.max(latest, Date.parse(row.created_at)), 0);
    for (const told of unknown) {
      const isWanted = statuses.length === 0 || statuses.includes(told.status);
      if (isWanted && Date.parse(told.created_at) > newest) this.#unseen.add(told.id);
    }
    this.#count();
  }

  #showHead(head: JobList): void {
    this.#heldBack = null;
    this.#list.value = withHead(this.#list.peek() ?? EMPTY, head);
    this.#count();
  }

  /** In the order of their submission the first page has the new ones; in another one, only the stream tells of them. */
  #count(): void {
    const known = new Set(this.#list.peek()?.rows.map((row) => row.id));
    const told =
      this.view.order === NEWEST_FIRST ? (this.#heldBack?.rows.map((row) => row.id) ?? []) : [...this.#unseen];
    this.#newCount.value = told.filter((id) => !known.has(id)).length;
  }

  #change(by: (list: JobList) => JobList): void {
    const list = this.#list.peek();
    if (list !== null) this.#list.value = by(list);
  }

  async #readPage(cursor: string | null): Promise<JobList> {
    const answer = await this.#sources.read<Listed<Job>>(listPath(this.view, PAGE_ROWS, cursor));
    return { rows: answer.items.map((job) => rowOf(job, cursor)), nextCursor: answer.next_cursor };
  }
}
