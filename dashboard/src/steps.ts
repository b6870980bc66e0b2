// Which changes of the address are steps of their own in the history. Pure; used by `url.ts`.

const PAUSE_MS = 1000; // a person who types on within it has not seen the answer yet

/** Every change is a step, but what is typed without a pause is one step together. */
export class Steps {
  #typedAt = Number.NEGATIVE_INFINITY;

  /** Whether a change at `now` (ms) begins a step; else it belongs to the last one. */
  begins(isTyping: boolean, now: number): boolean {
    const continues = isTyping && now - this.#typedAt < PAUSE_MS;
    this.#typedAt = isTyping ? now : Number.NEGATIVE_INFINITY;
    return !continues;
  }

  /** Begin a step with the next change in any case. */
  end(): void {
    this.#typedAt = Number.NEGATIVE_INFINITY;
  }
}
