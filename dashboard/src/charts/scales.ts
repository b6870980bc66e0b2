// From values to positions in pixels. Ticks and round ends come from d3-array. d3-scale would add colours, dates and
// formats that nothing here needs: a fifteenth of the whole page.

import { nice, ticks } from "d3-array";

type Ends = readonly [from: number, to: number];

/** Maps a range of values to a range of pixels and back: linear, or with `isLog` logarithmic. */
export class Scale {
  readonly #start: number;
  readonly #factor: number;
  readonly #least: number;
  readonly #isLog: boolean;
  readonly domain: Ends;

  constructor(domain: Ends, [start, end]: Ends, isLog = false) {
    this.domain = domain;
    this.#isLog = isLog;
    this.#least = isLog ? Math.log10(domain[0]) : domain[0];
    this.#start = start;
    this.#factor = (end - start) / ((isLog ? Math.log10(domain[1]) : domain[1]) - this.#least);
  }

  at(value: number): number {
    return this.#start + ((this.#isLog ? Math.log10(value) : value) - this.#least) * this.#factor;
  }

  valueAt(place: number): number {
    const value = this.#least + (place - this.#start) / this.#factor;
    return this.#isLog ? 10 ** value : value;
  }

  /** About `count` round values, at equal distances. */
  ticks(count: number): number[] {
    return ticks(this.domain[0], this.domain[1], count);
  }
}

/** The same range, with round ends. */
export function rounded([from, to]: Ends, count: number): Ends {
  const [least, greatest] = nice(from, to, count);
  return [least, greatest];
}

/** The left ends of `count` bands of equal width. `gap` (0..1) of each is free, half of it on each side. */
export function bands(
  count: number,
  [left, right]: Ends,
  gap: number,
): { left: (place: number) => number; width: number } {
  const step = (right - left) / Math.max(1, count);
  return { left: (place) => left + (place + gap / 2) * step, width: step * (1 - gap) };
}
