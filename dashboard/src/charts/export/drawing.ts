// A chart as a picture of its own: the title, the legend, axes, and the lines in view, drawn by the pen of the page.

import { colour } from "../../theme.ts";
import { indexAt, type Line, pointText, type Range } from "../lines.ts";
import { type Brush, drawLines, drawMarks, type Field, type Mark } from "../pen.ts";
import { Scale } from "../scales.ts";
import { figureAt, logPlaces, logText, powerPlaces, roundPlaces, type Unit } from "../ticks.ts";

export interface Picture {
  readonly title: string;
  readonly xName: string;
  /** Those that are shown. */
  readonly lines: readonly Line[];
  /** In view. */
  readonly range: Range;
  readonly yRange: Range;
  readonly isLog: boolean;
  /** The x of the lines are powers of ten. */
  readonly isLogX: boolean;
  readonly unit: Unit;
  readonly unitX: Unit;
  readonly marks: readonly Mark[];
  readonly format?: ((y: number) => string) | undefined;
  readonly formatX?: ((x: number) => string) | undefined;
  /** Writes a value in the legend. */
  readonly formatValue: (y: number) => string;
}

export const WIDTH = 900;
export const RATIO = 2; // pixels of the drawing to one of the page: readable in print

const PLOT_PX = 340;
const LEFT = 70;
const RIGHT = 24;
const SIDE = 14;
const ROW_PX = 20;
const TITLE_PX = 34;
const BELOW_PX = 46;
const MARK_PX = 18;
const MOST_PX = 4000; // no picture is higher
const MOST = 40; // lines with a place in the legend

const FONT = "ui-sans-serif, system-ui, sans-serif";

/** Draw it. Returns its height: a picture with a longer legend is higher. */
export function draw(ctx: Brush, picture: Picture): number {
  const top = drawHeading(ctx, picture.title, entriesOf(picture)) + MARK_PX;
  const field = fieldOf(ctx, picture, top);
  drawAxes(field, picture);
  drawLines(field, picture.lines);
  drawMarks(field, picture.marks);
  return top + PLOT_PX + BELOW_PX;
}

/** An entry of a legend. */
export interface Entry extends Pick<Line, "name" | "dash"> {
  /** As CSS; null without a line before the name. */
  readonly colour: string | null;
}

/** Each line with its last value in view. */
function entriesOf({ lines, range, formatValue }: Picture): Entry[] {
  return lines
    .filter(({ isDetail }) => !isDetail)
    .map((line) => ({
      ...line,
      name: `${line.name}  ${pointText(line, indexAt(line, null, range), formatValue)}`,
      colour: colour(line.colour),
    }));
}

/** The title and the legend in rows, on white. Returns where they end. */
export function drawHeading(ctx: Brush, title: string, all: readonly Entry[]): number {
  const entries = all.length > MOST ? [{ name: `${all.length} lines`, colour: null }] : all;
  ctx.fillStyle = "#ffffff";
  ctx.fillRect(0, 0, WIDTH * RATIO, MOST_PX * RATIO);
  write(ctx, title, SIDE, 22, { size: 15, weight: 600, ink: "text" });
  ctx.font = `${12 * RATIO}px ${FONT}`;
  let [left, top] = [SIDE, TITLE_PX];
  for (const entry of entries) {
    const width = 26 + ctx.measureText(entry.name).width / RATIO + 18;
    if (left > SIDE && left + width > WIDTH - SIDE) [left, top] = [SIDE, top + ROW_PX];
    if (entry.colour !== null) swatch(ctx, entry, left, top + 8);
    write(ctx, entry.name, left + (entry.colour === null ? 0 : 26), top + 8, { baseline: "middle", ink: "text" });
    left += width;
  }
  return entries.length === 0 ? top : top + ROW_PX;
}

function swatch(ctx: Brush, { colour: paint, dash = [] }: Entry, left: number, y: number): void {
  ctx.save();
  ctx.strokeStyle = paint;
  ctx.lineWidth = 2.5 * RATIO;
  ctx.setLineDash(dash.map((length) => length * RATIO));
  ctx.beginPath();
  ctx.moveTo(left * RATIO, y * RATIO);
  ctx.lineTo((left + 20) * RATIO, y * RATIO);
  ctx.stroke();
  ctx.restore();
}

function fieldOf(ctx: Brush, { range, yRange, isLog }: Picture, top: number): Field {
  const box = {
    left: LEFT * RATIO,
    top: top * RATIO,
    width: (WIDTH - LEFT - RIGHT) * RATIO,
    height: PLOT_PX * RATIO,
  };
  const x = new Scale(range, [box.left, box.left + box.width]);
  const y = new Scale(yRange, [box.top + box.height, box.top], isLog);
  return { ctx, box, ratio: RATIO, range, toX: (value) => x.at(value), toY: (value) => y.at(value) };
}

function drawAxes({ ctx, box, toX, toY }: Field, picture: Picture): void {
  const { range, yRange, isLog, isLogX, unit, unitX, format, formatX, xName } = picture;
  const y = isLog ? { places: logPlaces(...yRange), distance: 0 } : roundPlaces(...yRange, unit, 9);
  const x = isLogX
    ? { places: powerPlaces(...range), distance: 1 }
    : roundPlaces(...range, unitX, unitX === "seconds" ? 8 : 12);
  const bottom = box.top + box.height;
  ctx.strokeStyle = colour("border");
  ctx.lineWidth = RATIO;
  for (const value of y.places) {
    rule(ctx, [box.left, toY(value)], [box.left + box.width, toY(value)]);
    const text = format?.(value) ?? figureAt(value, isLog ? value / 10 : y.distance, unit);
    write(ctx, text, LEFT - 8, toY(value) / RATIO, { align: "right", baseline: "middle" });
  }
  for (const value of x.places) {
    rule(ctx, [toX(value), box.top], [toX(value), bottom]);
    const text = formatX?.(value) ?? (isLogX ? logText : figureAt)(value, x.distance, unitX);
    write(ctx, text, toX(value) / RATIO, bottom / RATIO + 16, { align: "center" });
  }
  write(ctx, xName, (box.left + box.width / 2) / RATIO, bottom / RATIO + 36, { align: "center" });
}

function rule(ctx: Brush, from: readonly [number, number], to: readonly [number, number]): void {
  ctx.beginPath();
  ctx.moveTo(...from);
  ctx.lineTo(...to);
  ctx.stroke();
}

interface Style {
  size?: number;
  weight?: number;
  ink?: "text" | "muted";
  align?: CanvasTextAlign;
  baseline?: CanvasTextBaseline;
}

function write(ctx: Brush, text: string, x: number, y: number, style: Style): void {
  const { size = 12, weight = 400, ink = "muted", align = "left", baseline = "alphabetic" } = style;
  ctx.font = `${weight} ${size * RATIO}px ${FONT}`;
  ctx.fillStyle = colour(ink);
  ctx.textAlign = align;
  ctx.textBaseline = baseline;
  ctx.fillText(text, x * RATIO, y * RATIO);
}
