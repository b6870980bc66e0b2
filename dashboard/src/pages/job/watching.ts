// Watched jobs: when one ends, the browser shows a notification. Works as long as the page is open, also in the
// background, where other polls stop.

import { type ReadonlySignal, signal } from "@preact/signals";
import type { Job } from "../../api/types.ts";
import { words } from "../../format.ts";

const EVERY_MS = 15_000; // browsers wake pages in the background once a minute
export const MOST_WATCHED = 20;

type Watched = Pick<Job, "id" | "name" | "status" | "end_reason" | "ended_at">;

interface Parts {
  /** Read a job. Throws `isGone` problems for those that no longer exist. */
  readonly read: (id: string) => Promise<Watched>;
  readonly notify: (job: Watched) => void;
  readonly isGone: (error: unknown) => boolean;
}

export class Watcher {
  readonly #parts: Parts;
  readonly #ids = signal<ReadonlySet<string>>(new Set());
  #timer: ReturnType<typeof setInterval> | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  get ids(): ReadonlySignal<ReadonlySet<string>> {
    return this.#ids;
  }

  /** Watch a job, or no longer. */
  toggle(id: string): void {
    const ids = new Set(this.#ids.peek());
    if (!ids.delete(id) && ids.size < MOST_WATCHED) ids.add(id);
    this.#set(ids);
  }

  /** Look at all watched jobs once. Those that cannot be read now are read the next time. */
  async look(): Promise<void> {
    for (const id of this.#ids.peek()) {
      try {
        const job = await this.#parts.read(id);
        if (job.ended_at === null || !this.#ids.peek().has(id)) continue;
        this.#parts.notify(job);
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
export function messageOf({ name, status, end_reason }: Watched): { readonly title: string; readonly body: string } {
  const isPlain = end_reason === null || end_reason === "completed" || end_reason === "cancelled";
  return { title: `${name}: ${status}`, body: isPlain ? "" : words(end_reason) };
}
