// The canvas of a chart. uPlot draws the axes, and handles scales, sizes and screens. Our own pen draws the lines.
//
// uPlot's lines share one array of x. In charts of many runs each line has its own x, and is drawn column
// by column. So uPlot gets no lines. It also gets no cursor and no selection, as all charts of a scope share them.

import type { Signal } from "@preact/signals";
import uPlot from "uplot";
import { colour } from "../theme.ts";
import styles from "./canvas.module.css";
import { Gestures } from "./gestures.ts";
import type { Line } from "./lines.ts";
import { drawLines, drawMarks, type Field, type Mark } from "./pen.ts";
import { Scale } from "./scales.ts";
import { cut, type Scope, yChoice } from "./scope.ts";
import { axisUnit, distances, figureAt, logPlaces, logText, powerPlaces, type Unit } from "./ticks.ts";
import { type YAxis, yRange } from "./y_range.ts";

/** The content of a chart. It changes more often than the chart itself. */
export interface PlotContent extends Omit<YAxis, "isLog"> {
  readonly title: string;
  readonly lines: readonly Line[];
  readonly xName: string;
  /** How values are written. By default, with as many digits as the axis needs. */
  readonly format?: ((y: number) => string) | undefined;
  readonly formatX?: ((x: number) => string) | undefined;
  readonly marks: readonly Mark[];
}

interface Shape {
  readonly isLog: boolean;
  /** The x of the lines are powers of ten. */
  readonly isLogX: boolean;
  readonly height: number;
  readonly unit: Unit;
  readonly unitX: Unit;
}

const X_AXIS_PX = 24;
const LEFT_PX = 58; // the same on all charts, so that their axes line up
const TOP_PX = 15; // for the text of marks
const RIGHT_PX = 24; // for half of the axis's last figure
const FONT = "11px ui-sans-serif, system-ui, sans-serif";
const LATEST_MS = 500; // for charts that are out of view
const NEAR = "300px"; // around the window: charts this near count as in view

export class Canvas {
  readonly #plot: uPlot;
  readonly #container: HTMLElement;
  readonly #scope: Scope;
  readonly #shape: Shape;
  readonly #cleanups: (() => void)[];
  readonly #cursor = layer(styles["cursor"]);
  readonly #label = layer(styles["label"]);
  readonly #selection = layer(styles["selection"]);
  #content: PlotContent = { title: "", lines: [], xName: "", marks: [] };
  #unitY = 1; // the y scale of uPlot has values divided by this
  readonly #isNear: Signal<boolean>;
  #cancel: (() => void) | undefined;

  /** Sets `isNear` to whether the chart is in or near the window. */
  constructor(container: HTMLElement, scope: Scope, shape: Shape, isNear: Signal<boolean>) {
    this.#isNear = isNear;
    this.#container = container;
    this.#scope = scope;
    this.#shape = shape;
    this.#plot = new uPlot(this.#options(), [[]], container);
    this.#plot.root.style.visibility = "hidden"; // until the axes have their places
    this.#cursor.append(this.#label);
    this.#label.hidden = false;
    this.#plot.over.append(this.#selection, this.#cursor);
    new Gestures(this.#plot.over, scope, {
      select: (stretch, isVertical) => this.#showSelection(stretch, isVertical),
      cut: (stretch) => cut(scope, this.#content.title, stretch && this.#valuesAt(stretch)),
    });
    this.#cleanups = [
      this.#watchSize(),
      this.#watchNearness(),
      isNear.subscribe((now) => now && this.redraw()),
      scope.range.subscribe(() => this.redraw()),
      scope.cuts.subscribe(() => this.redraw()),
      scope.isCropped.subscribe(() => this.redraw()),
      scope.cursor.subscribe(() => this.#point()),
      () => this.#cancel?.(),
    ];
  }

  show(content: PlotContent): void {
    this.#content = content;
    this.redraw();
  }

  /** Draw with the next frame; charts out of view are drawn when the browser is idle. */
  redraw(): void {
    this.#cancel?.();
    this.#cancel = (this.#isNear.peek() ? withNextFrame : inIdleTime)(() => this.#draw());
  }

  destroy(): void {
    for (const end of this.#cleanups) end();
    this.#plot.destroy();
  }

  #watchSize(): () => void {
    const watcher = new ResizeObserver(() => {
      const width = this.#container.clientWidth;
      if (width === 0 || width === this.#plot.width) return;
      this.#plot.setSize({ width, height: this.#shape.height });
      this.#point();
    });
    watcher.observe(this.#container);
    return () => watcher.disconnect();
  }

  #watchNearness(): () => void {
    const watcher = new IntersectionObserver(
      (entries) => {
        this.#isNear.value = entries.at(-1)?.isIntersecting ?? false;
      },
      { rootMargin: NEAR },
    );
    watcher.observe(this.#container);
    return () => watcher.disconnect();
  }

  #draw(): void {
    this.#cancel = undefined;
    const range = this.#scope.range.peek();
    if (range === null) return;
    const { isLog } = this.#shape;
    const axis = { ...this.#content, isLog, ...yChoice(this.#scope, this.#content.title) };
    const [least, greatest] = yRange(this.#content.lines, range, axis, this.#scope.zoom.peek() !== null);
    this.#unitY = this.#shape.unit === "tens" ? axisUnit(least, greatest) : 1;
    this.#plot.batch(() => {
      this.#plot.setScale("x", { min: range[0], max: range[1] });
      this.#plot.setScale("y", { min: least / this.#unitY, max: greatest / this.#unitY });
    });
    this.#plot.root.style.visibility = "";
    this.#point();
  }

  /** Called by uPlot when it has drawn the axes. */
  #drawInside(): void {
    const { ctx, bbox: box, scales } = this.#plot;
    const { min: from, max: to } = scales["x"] ?? {};
    const { min: least, max: greatest } = scales["y"] ?? {};
    if (from == null || to == null || least == null || greatest == null) return;
    const x = new Scale([from, to], [box.left, box.left + box.width]);
    const ends = [least * this.#unitY, greatest * this.#unitY] as const;
    const y = new Scale(ends, [box.top + box.height, box.top], this.#shape.isLog);
    const ratio = uPlot.pxRatio;
    const field: Field = {
      ctx,
      box,
      ratio,
      range: [from, to],
      toX: (value) => x.at(value),
      toY: (value) => y.at(value),
    };
    drawLines(field, this.#content.lines);
    drawMarks(field, this.#content.marks);
  }

  /** Move the cursor to the scope's cursor. */
  #point(): void {
    if (!this.#isNear.peek()) return;
    const x = this.#scope.cursor.peek();
    const range = this.#scope.range.peek();
    const isInside = x !== null && range !== null && x >= range[0] && x <= range[1];
    this.#cursor.hidden = !isInside;
    if (!isInside) return;
    const share = (x - range[0]) / (range[1] - range[0]);
    const width = this.#plot.bbox.width / uPlot.pxRatio;
    this.#cursor.style.transform = `translateX(${Math.round(share * width)}px)`;
    this.#label.style.transform = `translateX(-${Math.round(share * 100)}%)`;
    this.#label.textContent = `${this.#content.xName} ${this.#figureX(x, (range[1] - range[0]) / width)}`;
  }

  /** The values at two places, in pixels from the upper edge. */
  #valuesAt([top, bottom]: readonly [number, number]): [number, number] {
    const { min = 0, max = 1 } = this.#plot.scales["y"] ?? {};
    const ends = [(min ?? 0) * this.#unitY, (max ?? 1) * this.#unitY] as const;
    const y = new Scale(ends, [this.#plot.over.clientHeight, 0], this.#shape.isLog);
    return [y.valueAt(bottom), y.valueAt(top)];
  }

  #showSelection(stretch: readonly [from: number, to: number] | null, isVertical: boolean): void {
    this.#selection.hidden = stretch === null;
    if (stretch === null) return;
    const [from, size] = [`${stretch[0]}px`, `${stretch[1] - stretch[0]}px`];
    Object.assign(
      this.#selection.style,
      isVertical
        ? { inset: `${from} 0 auto`, width: "auto", height: size }
        : { inset: `0 auto 0 ${from}`, width: size, height: "auto" },
    );
  }

  #options(): uPlot.Options {
    const { height, isLog, isLogX, unit, unitX } = this.#shape;
    const axis = {
      stroke: () => colour("muted"),
      font: FONT,
      grid: { stroke: () => colour("border"), width: 1 },
      ticks: { show: false },
    };
    return {
      width: Math.max(1, this.#container.clientWidth),
      height,
      padding: [TOP_PX, RIGHT_PX, 0, 0],
      legend: { show: false },
      cursor: { show: false },
      select: { show: false, left: 0, top: 0, width: 0, height: 0 },
      scales: { x: { time: false, range: AS_SET }, y: { distr: isLog ? 3 : 1, range: AS_SET } },
      axes: [
        {
          ...axis,
          size: X_AXIS_PX,
          space: unitX === "seconds" ? 90 : 60,
          ...(isLogX ? { splits: (_, __, from, to) => powerPlaces(from, to) } : {}),
          incrs: distances(unitX),
          values: (_, places, __, ___, distance) => places.map((x) => this.#figureX(x, distance)),
        },
        {
          ...axis,
          size: LEFT_PX,
          space: 22,
          ...(isLog ? { splits: (_, __, from, to) => logPlaces(from, to), filter: (_, places) => places } : {}),
          incrs: distances(unit),
          values: (_, values, __, ___, distance) =>
            values.map((y) => this.#figureY(y * this.#unitY, distance * this.#unitY)),
        },
      ],
      series: [{}],
      hooks: { draw: [() => this.#drawInside()] },
    };
  }

  #figureY(y: number, distance: number): string {
    const { isLog, unit } = this.#shape;
    return this.#content.format?.(y) ?? figureAt(y, isLog ? y / 10 : distance, unit);
  }

  #figureX(x: number, distance: number): string {
    const { isLogX, unitX } = this.#shape;
    return this.#content.formatX?.(x) ?? (isLogX ? logText : figureAt)(x, distance, unitX);
  }
}

/** uPlot uses the ends of the scales as they are set here. */
const AS_SET = (_: uPlot, from: number | null, to: number | null): [number | null, number | null] => [from, to];

/** An element over the lines, hidden at first. */
function layer(name: string | undefined): HTMLElement {
  const element = document.createElement("div");
  element.className = name ?? "";
  element.hidden = true;
  return element;
}

function withNextFrame(draw: () => void): () => void {
  const id = requestAnimationFrame(draw);
  return () => cancelAnimationFrame(id);
}

function inIdleTime(draw: () => void): () => void {
  if (typeof requestIdleCallback === "undefined") return withNextFrame(draw);
  const id = requestIdleCallback(draw, { timeout: LATEST_MS });
  return () => cancelIdleCallback(id);
}
