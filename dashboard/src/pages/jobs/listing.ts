// The jobs of one view: loaded, polled and updated by events. Each set of filters, with an order, has its own listing.

import { computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { Problem } from "../../api/problem.ts";
import type { Job, Listed, Progress } from "../../api/types.ts";
import { deletedIds } from "../../deleted.ts";
import { EMPTY, type JobList, type News, withHead, withNews, without, withRows, withTail } from "./list.ts";
import { Rereader } from "./rereading.ts";
import { type Row, rowOf, type StreamedProgress, type StreamedState } from "./row.ts";
import { listPath, NEWEST_FIRST, type View } from "./view.ts";

export const PAGE_ROWS = 100;
const GATHERED_MS = 100; // events of about the same time are shown together
const HEAD_MS = 2000; // at least, between two reads of the first page because of events

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
  readonly #shown = computed(() => {
    const list = this.#list.value;
    return list && without(list, ({ id }) => deletedIds.value.has(id));
  });
  readonly #newCount = signal(0);
  readonly #tail: Signal<"idle" | "loading" | Problem> = signal("idle");
  readonly #rereader: Rereader;
  #isAtTop = true;
  #heldBack: JobList | null = null;
  #unseen = new Set<string>(); // new jobs whose position is unknown
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
      take: (rows) => this.#change((list) => without(withRows(list, rows), (row) => !this.#isKept(row))),
      drop: (id) => this.#change((list) => without(list, (row) => row.id === id)),
    });
  }

  /** Null until the first page has come. */
  get list(): ReadonlySignal<JobList | null> {
    return this.#shown;
  }

  /** The number of new jobs that are not shown, as rows in view do not move. */
  get newCount(): ReadonlySignal<number> {
    return this.#newCount;
  }

  /** The state of loading the next page. */
  get tail(): ReadonlySignal<"idle" | "loading" | Problem> {
    return this.#tail;
  }

  /** Store the first page, which was just read. */
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

  /** Set whether the first row is in view. */
  setAtTop(isAtTop: boolean): void {
    this.#isAtTop = isAtTop;
    if (isAtTop && this.#heldBack !== null) this.#showHead(this.#heldBack);
  }

  /** Load the next page, unless it is on its way. */
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

  /** Store a `state` event of `GET /v1/events`. */
  takeState(state: StreamedState): void {
    this.#states.set(state.id, state);
    this.#newsTimer ??= setTimeout(() => this.takeNews(), GATHERED_MS);
  }

  /** Store a `progress` event. */
  takeProgress({ id, progress }: StreamedProgress): void {
    this.#progress.set(id, progress);
    this.#newsTimer ??= setTimeout(() => this.takeNews(), GATHERED_MS);
  }

  /** Show the events since the last call. */
  takeNews(): void {
    const news: News = { states: this.#states, progress: this.#progress };
    clearTimeout(this.#newsTimer);
    this.#newsTimer = undefined;
    this.#states = new Map();
    this.#progress = new Map();
    const before = this.#list.peek();
    if (before === null) return; // the page on its way is newer than these events
    const { list, stale } = withNews(before, news);
    const { statuses } = this.view;
    this.#list.value = without(list, (row) => statuses.length > 0 && !statuses.includes(row.status));
    this.#rereader.add(stale);
    this.#meet(news.states, list);
  }

  /** Stop all timers. */
  close(): void {
    this.#rereader.close();
    clearTimeout(this.#newsTimer);
    clearTimeout(this.#headTimer);
  }

  /** Events of jobs that are not in the list: they may be new, or may belong in it now. */
  #meet(states: News["states"], list: JobList): void {
    const listedIds = new Set(list.rows.map((row) => row.id));
    const unlisted = [...states.values()].filter((state) => !listedIds.has(state.id));
    if (unlisted.length === 0) return;
    this.#headTimer ??= setTimeout(
      () => {
        this.#headTimer = undefined;
        this.#sources.pollHead();
      },
      Math.max(GATHERED_MS, this.#headAt + HEAD_MS - Date.now()),
    );
    const { statuses, search, study, isStarred, where } = this.view;
    if (search !== "" || study !== "" || isStarred || where.length > 0) return; // the stream cannot filter by these
    const newest = list.rows.reduce((latest, row) => Math.max(latest, Date.parse(row.created_at)), 0);
    for (const { id, status, created_at } of unlisted) {
      const isOfView = statuses.length === 0 || statuses.includes(status);
      if (isOfView && Date.parse(created_at) > newest) this.#unseen.add(id);
    }
    this.#count();
  }

  #showHead(head: JobList): void {
    this.#heldBack = null;
    this.#list.value = withHead(this.#list.peek() ?? EMPTY, head);
    this.#count();
  }

  /** Count new jobs. With the newest first they are in the first page; in other orders only events report them. */
  #count(): void {
    const listedIds = new Set(this.#list.peek()?.rows.map((row) => row.id));
    const newIds =
      this.view.order === NEWEST_FIRST ? (this.#heldBack?.rows.map((row) => row.id) ?? []) : [...this.#unseen];
    this.#newCount.value = newIds.filter((id) => !listedIds.has(id)).length;
  }

  /** Whether an archived job, or one that was brought back, is still of this view. */
  #isKept({ archived }: Row): boolean {
    return this.view.archived === "all" || archived === (this.view.archived === "true");
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
