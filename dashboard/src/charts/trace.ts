// The path of a pen along a line of any number of points.
//
// Points that share a column of pixels are drawn as one bar from the least to the greatest of them: a hundred thousand
// points cost as little as the columns, and a spike of a single point is never lost. Bars side by side are filled and
// not stroked as a path, as browsers take seconds for the outline of a path that covers itself a thousand times.

import type { Numbers, Range } from "./lines.ts";

/** A canvas, or a recorder in a test. */
export interface Pen {
  /** Go to a place without drawing. */
  moveTo(x: number, y: number): void;
  /** Draw to a place. */
  lineTo(x: number, y: number): void;
  /** Fill a column, from one height to another one. */
  bar(x: number, from: number, to: number): void;
}

/** Draw the points of `view`, in columns `width` pixels wide. A point whose `toY` is not finite is a gap. */
export function trace(
  xs: Numbers,
  ys: Numbers,
  view: Range,
  toX: (x: number) => number,
  toY: (y: number) => number,
  width: number,
  pen: Pen,
): void {
  const path = new Way(pen, width);
  for (let i = view[0]; i < view[1]; i++) {
    const y = toY(ys[i] as number);
    if (Number.isFinite(y)) path.add(Math.round(toX(xs[i] as number) / width) * width, y);
    else path.lift();
  }
  path.lift();
}

/** The points of a column: the first and the last value, the least and the greatest. */
interface Column {
  readonly x: number;
  readonly first: number;
  least: number;
  greatest: number;
  last: number;
}

class Way {
  readonly #pen: Pen;
  readonly #width: number;
  #before: Column | undefined; // the pen is at its last value
  #now: Column | undefined;

  constructor(pen: Pen, width: number) {
    this.#pen = pen;
    this.#width = width;
  }

  add(x: number, y: number): void {
    const now = this.#now;
    if (now?.x === x) {
      if (y < now.least) now.least = y;
      if (y > now.greatest) now.greatest = y;
      now.last = y;
      return;
    }
    this.#enter();
    this.#now = { x, first: y, least: y, greatest: y, last: y };
  }

  /** The line ends here, or has a gap. */
  lift(): void {
    this.#enter();
    this.#leave();
    this.#before = undefined;
  }

  /** Draw from the previous column to this one, once all its points are known. */
  #enter(): void {
    const now = this.#now;
    const before = this.#before;
    if (now === undefined) return;
    const isBar = this.#isBar(now);
    const { x } = now;
    const y = isBar ? now.first : (now.least + now.greatest) / 2;
    if (before === undefined) this.#pen.moveTo(x, y);
    else if (isBar && this.#isBar(before) && x - before.x < this.#width * 1.5) meet(before, now);
    else this.#pen.lineTo(x, y);
    this.#leave();
    if (isBar) this.#pen.moveTo(x, now.last);
    else if (before === undefined) this.#pen.lineTo(x, y); // a round end makes a dot of a lonely point
    this.#before = now;
    this.#now = undefined;
  }

  #leave(): void {
    if (this.#before !== undefined && this.#isBar(this.#before))
      this.#pen.bar(this.#before.x, this.#before.least, this.#before.greatest);
  }

  #isBar({ least, greatest }: Column): boolean {
    return greatest - least > 2 * this.#width;
  }
}

/** Extend two neighbouring bars to their middle, so that the line has no gap. */
function meet(before: Column, now: Column): void {
  const middle = (before.last + now.first) / 2;
  before.least = Math.min(before.least, middle);
  before.greatest = Math.max(before.greatest, middle);
  now.least = Math.min(now.least, middle);
  now.greatest = Math.max(now.greatest, middle);
}
