// Watched jobs: when one ends or has an alert, the browser shows a notification. Works as long as the page is open, also in the
// background, where other polls stop.

import { type ReadonlySignal, signal } from "@preact/signals";
import type { Job } from "../../api/types.ts";
import { words } from "../../format.ts";

const EVERY_MS = 15_000; // browsers wake pages in the background once a minute
export const MOST_WATCHED = 20;

type Watched = Pick<Job, "id" | "name" | "status" | "end_reason" | "ended_at" | "alerts" | "last_alert">;

interface Parts {
  /** Read a job. Throws `isGone` problems for those that no longer exist. */
  readonly read: (id: string) => Promise<Watched>;
  readonly notify: (job: Watched) => void;
  readonly isGone: (error: unknown) => boolean;
}

export class Watcher {
  readonly #parts: Parts;
  readonly #ids = signal<ReadonlySet<string>>(new Set());
  readonly #alerts = new Map<string, number>(); // how many of each were seen
  #timer: ReturnType<typeof setInterval> | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  get ids(): ReadonlySignal<ReadonlySet<string>> {
    return this.#ids;
  }

  /** Watch a job with so many alerts, or no longer. */
  toggle(id: string, alerts = 0): void {
    this.#alerts.set(id, alerts);
    const ids = new Set(this.#ids.peek());
    if (!ids.delete(id) && ids.size < MOST_WATCHED) ids.add(id);
    this.#set(ids);
  }

  /** Look at all watched jobs once. Those that cannot be read now are read the next time. */
  async look(): Promise<void> {
    for (const id of this.#ids.peek()) {
      try {
        const job = await this.#parts.read(id);
        if (!this.#ids.peek().has(id)) continue;
        const alerts = job.alerts ?? 0;
        const isNews = job.ended_at !== null || alerts > (this.#alerts.get(id) ?? 0);
        this.#alerts.set(id, alerts);
        if (isNews) this.#parts.notify(job);
        if (job.ended_at === null) continue;
      } catch (error) {
        if (!this.#parts.isGone(error)) continue;
      }
      const rest = new Set(this.#ids.peek());
      rest.delete(id);
      this.#set(rest);
    }
  }

  #set(ids: ReadonlySet<string>): void {
    this.#ids.value = ids;
    if (ids.size === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
    } else this.#timer ??= setInterval(() => void this.look(), EVERY_MS);
  }
}

/** What the notification says. */
export function messageOf({ name, status, end_reason, ended_at, last_alert: alert }: Watched): {
  readonly title: string;
  readonly body: string;
} {
  if (ended_at === null && alert) return { title: `${name}: ${alert.title}`, body: alert.text ?? "" };
  const isPlain = end_reason === null || end_reason === "completed" || end_reason === "cancelled";
  return { title: `${name}: ${status}`, body: isPlain ? "" : words(end_reason) };
}
