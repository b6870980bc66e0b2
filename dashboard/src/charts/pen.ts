// Draws lines and marks on a canvas. Used by `canvas.ts`, which knows where the axes are.

import { colour } from "../theme.ts";
import { inView, type Line, type Range } from "./lines.ts";
import { type Pen, trace } from "./trace.ts";

export interface Mark {
  readonly x: number;
  readonly text: string;
}

/** What of a canvas's context the pen uses. */
export type Brush = Pick<
  CanvasRenderingContext2D,
  | ("save" | "restore" | "beginPath" | "moveTo" | "lineTo" | "rect" | "arc" | "clip" | "stroke" | "fill" | "fillRect")
  | ("fillText" | "setLineDash" | "lineDashOffset" | "lineWidth" | "lineJoin" | "lineCap")
  | ("globalAlpha" | "font" | "textAlign" | "textBaseline")
> & {
  fillStyle: unknown;
  strokeStyle: unknown;
  measureText(text: string): { readonly width: number };
};

/** The part of a canvas that the lines fill, in pixels of the canvas. */
export interface Field {
  readonly ctx: Brush;
  readonly box: { readonly left: number; readonly top: number; readonly width: number; readonly height: number };
  readonly range: Range;
  readonly toX: Along;
  readonly toY: Along;
  /** Pixels of the canvas to one of the page. */
  readonly ratio: number;
}

export type Along = (value: number) => number;

const FEW = 40;
const FAINT = 0.35;
const PALE = 0.14;
const RIM = 2.5; // pixels of the page, so that a point on the edge is whole

export function drawLines(field: Field, lines: readonly Line[]): void {
  const { ctx, box } = field;
  const rim = RIM * field.ratio;
  ctx.save();
  ctx.beginPath();
  ctx.rect(box.left - rim, box.top - rim, box.width + 2 * rim, box.height + 2 * rim);
  ctx.clip();
  for (const line of lines) drawSpread(field, line);
  for (const { smooth, ...line } of lines) if (smooth !== undefined) drawLine(field, line, 1, FAINT);
  for (const line of lines) {
    if (line.isPale) {
      drawLine(field, line, 1, FAINT, line.dash);
      continue;
    }
    const width = line.isThick ? 2.5 : 1.5;
    drawLine(field, line.smooth === undefined ? line : { ...line, ys: line.smooth }, width, 1, line.dash);
    drawPoints(field, line);
  }
  ctx.restore();
}

/** Fill the area of a line's spread, stretch by stretch between its gaps. */
function drawSpread({ ctx, range, toX, toY }: Field, { xs, spread, colour: name }: Line): void {
  if (spread === undefined || spread.isHidden) return;
  ctx.fillStyle = colour(name);
  ctx.globalAlpha = PALE;
  const [first, end] = inView(xs, range);
  for (let from = first; from < end; from++) {
    let to = from;
    while (
      to < end &&
      Number.isFinite(toY(spread.low[to] as number)) &&
      Number.isFinite(toY(spread.high[to] as number))
    )
      to++;
    ctx.beginPath();
    for (let i = from; i < to; i++) ctx.lineTo(toX(xs[i] as number), toY(spread.high[i] as number));
    for (let i = to - 1; i >= from; i--) ctx.lineTo(toX(xs[i] as number), toY(spread.low[i] as number));
    ctx.fill();
    from = to;
  }
  ctx.globalAlpha = 1;
}

function drawLine(
  field: Field,
  { xs, ys, colour: name }: Line,
  width: number,
  alpha: number,
  dash?: Line["dash"],
): void {
  const { ctx, range, ratio, toX, toY } = field;
  ctx.strokeStyle = ctx.fillStyle = colour(name);
  ctx.globalAlpha = alpha;
  const pen = new CanvasPen(
    ctx,
    width * ratio,
    (dash ?? []).map((length) => length * ratio),
  );
  trace(xs, ys, inView(xs, range), toX, toY, Math.max(1, Math.round(ratio)), pen);
  pen.end();
  ctx.globalAlpha = 1;
}

const AT_ONCE = 16; // segments of a path: browsers draw a long path that crosses itself much slower than its pieces

class CanvasPen implements Pen {
  readonly #ctx: Brush;
  readonly #dash: readonly number[];
  #count = 0;
  #length = 0;
  #x = 0;
  #y = 0;

  constructor(ctx: Brush, width: number, dash: readonly number[]) {
    this.#ctx = ctx;
    this.#dash = dash;
    ctx.lineWidth = width;
    ctx.lineJoin = "round";
    ctx.lineCap = dash.length === 0 && ctx.globalAlpha === 1 ? "round" : "butt";
    ctx.setLineDash([...dash]);
    ctx.lineDashOffset = 0;
    ctx.beginPath();
  }

  moveTo(x: number, y: number): void {
    this.#ctx.moveTo(x, y);
    this.#x = x;
    this.#y = y;
  }

  lineTo(x: number, y: number): void {
    this.#ctx.lineTo(x, y);
    if (this.#dash.length > 0) this.#length += Math.hypot(x - this.#x, y - this.#y);
    this.#x = x;
    this.#y = y;
    this.#count += 1;
    if (this.#count < AT_ONCE) return;
    this.end();
    this.#ctx.lineDashOffset = this.#length; // the dashes continue
    this.#ctx.beginPath();
    this.#ctx.moveTo(x, y);
  }

  bar(x: number, from: number, to: number): void {
    const width = this.#ctx.lineWidth;
    this.#ctx.fillRect(x - width / 2, from, width, to - from);
  }

  end(): void {
    this.#ctx.stroke();
    this.#count = 0;
  }
}

/** Mark the points, if they are few. */
function drawPoints({ ctx, range, toX, toY, ratio }: Field, { xs, ys, smooth, colour: name }: Line): void {
  const [first, end] = inView(xs, range);
  if (end - first > FEW) return;
  ctx.fillStyle = colour(name);
  ctx.globalAlpha = smooth === undefined ? 1 : FAINT;
  for (let i = first; i < end; i++) {
    const y = toY(ys[i] as number);
    if (!Number.isFinite(y)) continue;
    ctx.beginPath();
    ctx.arc(toX(xs[i] as number), y, 1.8 * ratio, 0, 2 * Math.PI);
    ctx.fill();
  }
  ctx.globalAlpha = 1;
}

/** Vertical lines with a text above each. A text that would overlap the previous one is left out. */
export function drawMarks({ ctx, box, range, toX, ratio }: Field, marks: readonly Mark[]): void {
  ctx.save();
  ctx.fillStyle = ctx.strokeStyle = colour("muted");
  ctx.lineWidth = ratio;
  ctx.setLineDash([3 * ratio, 3 * ratio]);
  ctx.font = `${10 * ratio}px ui-sans-serif, system-ui, sans-serif`;
  ctx.textAlign = "left";
  ctx.textBaseline = "alphabetic";
  let nextFreeX = Number.NEGATIVE_INFINITY;
  for (const { x, text } of marks.toSorted((a, b) => a.x - b.x)) {
    if (x < range[0] || x > range[1]) continue;
    const lineX = Math.round(toX(x));
    ctx.beginPath();
    ctx.moveTo(lineX, box.top);
    ctx.lineTo(lineX, box.top + box.height);
    ctx.stroke();
    const { width } = ctx.measureText(text);
    const left = Math.min(Math.max(lineX - width / 2, box.left), box.left + box.width - width);
    if (left < nextFreeX) continue;
    ctx.fillText(text, left, box.top - 4 * ratio);
    nextFreeX = left + width + 6 * ratio;
  }
  ctx.restore();
}
