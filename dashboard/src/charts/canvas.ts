// What draws a chart: uPlot for axes, scales, cursor and selection; our own pen for the lines.
//
// uPlot's lines share one array of x, which charts of many runs do not have: each of ours has its own, and is drawn column
// by column (`trace`). So uPlot is given no points, only the two ends of the axis.

import uPlot from "uplot";
import { colour } from "../theme.ts";
import { inView, type Line, padded, type Range, trace, yExtent } from "./lines.ts";
import { pan, type Scope, zoomBy } from "./scope.ts";

export interface Mark {
  readonly x: number;
  readonly text: string;
}

/** What is drawn; it changes more often than the chart itself. */
export interface Shown {
  readonly lines: readonly Line[];
  readonly format: (y: number) => string;
  readonly formatX: (x: number) => string;
  readonly marks: readonly Mark[];
  readonly yFrom?: number | undefined;
  readonly yTo?: number | undefined;
}

interface Shape {
  readonly isLog: boolean;
  readonly hasXAxis: boolean;
  readonly height: number;
}

const LEFT_PX = 58; // the same on all charts, so that their axes lie above each other
const FEW = 60; // points that are shown as such

export class Canvas {
  readonly #plot: uPlot;
  readonly #scope: Scope;
  readonly #shape: Shape;
  readonly #ends: (() => void)[] = [];
  #shown: Shown = { lines: [], format: String, formatX: String, marks: [] };

  constructor(place: HTMLElement, scope: Scope, shape: Shape) {
    this.#scope = scope;
    this.#shape = shape;
    this.#plot = new uPlot(
      this.#options(place.clientWidth),
      [
        [0, 1],
        [null, null],
      ],
      place,
    );
    const watcher = new ResizeObserver(() => this.#plot.setSize({ width: place.clientWidth, height: shape.height }));
    watcher.observe(place);
    this.#ends.push(
      () => watcher.disconnect(),
      scope.range.subscribe(() => this.#rescale()),
      scope.cursor.subscribe((x) => this.#pointAt(x)),
      ...this.#panning(),
    );
  }

  show(shown: Shown): void {
    this.#shown = shown;
    this.#rescale();
  }

  redraw(): void {
    this.#plot.redraw();
  }

  destroy(): void {
    for (const end of this.#ends) end();
    this.#plot.destroy();
  }

  #rescale(): void {
    const range = this.#scope.range.peek();
    if (range === null) return;
    const [min, max] = range[0] < range[1] ? range : [range[0] - 0.5, range[1] + 0.5];
    this.#plot.batch(() => {
      this.#plot.setData(
        [
          [min, max],
          [null, null],
        ],
        false,
      );
      this.#plot.setScale("x", { min, max });
    });
  }

  #pointAt(x: number | null): void {
    const { scales } = this.#plot;
    const isInside =
      x !== null && scales["x"]?.min !== undefined && x >= scales["x"].min && x <= (scales["x"].max as number);
    this.#plot.setCursor(isInside ? { left: this.#plot.valToPos(x, "x"), top: 0 } : { left: -10, top: -10 }, false);
  }

  #options(width: number): uPlot.Options {
    const axis = {
      stroke: () => colour("muted"),
      font: "11px ui-sans-serif, system-ui, sans-serif",
      grid: { stroke: () => colour("border"), width: 1 },
      ticks: { show: false },
    };
    return {
      width,
      height: this.#shape.height,
      padding: [6, 8, this.#shape.hasXAxis ? 0 : 6, 0],
      legend: { show: false },
      cursor: {
        y: false,
        points: { show: false },
        drag: { x: true, y: false, setScale: false },
        bind: { dblclick: () => () => this.#all() },
      },
      scales: {
        x: { time: false },
        y: { distr: this.#shape.isLog ? 3 : 1, range: () => this.#yRange() as [number, number] },
      },
      axes: [
        {
          ...axis,
          show: this.#shape.hasXAxis,
          size: 26,
          values: (_, ticks) => ticks.map((x) => this.#shown.formatX(x)),
        },
        {
          ...axis,
          size: LEFT_PX,
          space: 28,
          values: (_, ticks) => ticks.map((y) => (y === null ? "" : this.#shown.format(y))),
        },
      ],
      series: [{}, { show: true }],
      hooks: {
        draw: [() => this.#draw()],
        setSelect: [() => this.#zoom()],
        setCursor: [(plot) => this.#pointed(plot)],
      },
    };
  }

  #all(): null {
    this.#scope.zoom.value = null;
    return null;
  }

  /** A stretch was selected by dragging. */
  #zoom(): void {
    const { left, width } = this.#plot.select;
    if (width < 4) return;
    this.#scope.zoom.value = [this.#plot.posToVal(left, "x"), this.#plot.posToVal(left + width, "x")];
    this.#plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  }

  /** The pointer moved over this chart: all charts of the scope follow. */
  #pointed(plot: uPlot): void {
    const left = plot.cursor.left ?? -1;
    this.#scope.cursor.value = left < 0 ? null : plot.posToVal(left, "x");
  }

  #panning(): (() => void)[] {
    const { over } = this.#plot;
    const wheel = (event: WheelEvent): void => {
      const sideways = event.shiftKey && event.deltaX === 0 ? event.deltaY : event.deltaX;
      if (event.ctrlKey || event.metaKey)
        zoomBy(this.#scope, 1.002 ** event.deltaY, this.#plot.posToVal(event.offsetX, "x"));
      else if (Math.abs(sideways) > Math.abs(event.shiftKey ? 0 : event.deltaY))
        pan(this.#scope, sideways / over.clientWidth);
      else return;
      event.preventDefault();
    };
    const drag = (event: PointerEvent): void => {
      if (event.shiftKey && event.buttons === 1) pan(this.#scope, -event.movementX / over.clientWidth);
    };
    const press = (event: MouseEvent): void => {
      if (event.shiftKey) event.stopImmediatePropagation(); // Shift pans, and selects nothing
    };
    over.addEventListener("wheel", wheel, { passive: false });
    over.addEventListener("pointermove", drag);
    over.parentElement?.addEventListener("mousedown", press, { capture: true });
    return [];
  }

  #yRange(): Range {
    const { lines, yFrom, yTo } = this.#shown;
    const { isLog } = this.#shape;
    const range = this.#scope.range.peek() ?? [0, 1];
    const found = yExtent(lines, range, isLog ? 0 : undefined) ?? (isLog ? [0.1, 1] : [0, 1]);
    const [least, greatest] = padded(found, isLog);
    return [
      yFrom === undefined || isLog ? least : Math.min(yFrom, found[0]),
      yTo === undefined ? greatest : Math.max(yTo, found[1]),
    ];
  }

  #draw(): void {
    const { ctx, bbox, scales } = this.#plot;
    const x = scales["x"];
    const y = scales["y"];
    if (x?.min == null || x.max == null || y?.min == null || y.max == null) return;
    const toX = along(x.min, x.max, bbox.left, bbox.left + bbox.width, (value) => value);
    const toY = along(
      y.min,
      y.max,
      bbox.top + bbox.height,
      bbox.top,
      this.#shape.isLog ? Math.log10 : (value) => value,
    );
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.lineJoin = "round";
    this.#drawMarks(ctx, toX);
    for (const line of this.#shown.lines) this.#drawLine(ctx, line, [x.min, x.max], toX, toY);
    ctx.restore();
  }

  #drawLine(ctx: CanvasRenderingContext2D, line: Line, range: Range, toX: Along, toY: Along): void {
    const view = inView(line.xs, range);
    ctx.strokeStyle = colour(line.colour);
    const stroke = (ys: Line["ys"], width: number, alpha: number, dash: readonly number[]): void => {
      const path = new Path2D();
      trace(line.xs, ys, view, toX, toY, path);
      ctx.globalAlpha = alpha;
      ctx.lineWidth = width * devicePixelRatio;
      ctx.setLineDash(dash.map((length) => length * devicePixelRatio));
      ctx.lineCap = dash.length === 0 ? "round" : "butt";
      ctx.stroke(path);
      ctx.globalAlpha = 1;
    };
    if (line.smooth !== undefined) stroke(line.ys, 1, 0.35, []);
    stroke(line.smooth ?? line.ys, 1.6, 1, line.dash ?? []);
    if (view[1] - view[0] <= FEW) this.#drawPoints(ctx, line, view, toX, toY);
  }

  #drawPoints(
    ctx: CanvasRenderingContext2D,
    { xs, ys, colour: name }: Line,
    view: Range,
    toX: Along,
    toY: Along,
  ): void {
    ctx.fillStyle = colour(name);
    for (let i = view[0]; i < view[1]; i++) {
      const y = toY(ys[i] as number);
      if (!Number.isFinite(y)) continue;
      ctx.beginPath();
      ctx.arc(toX(xs[i] as number), y, 2 * devicePixelRatio, 0, 2 * Math.PI);
      ctx.fill();
    }
  }

  #drawMarks(ctx: CanvasRenderingContext2D, toX: Along): void {
    const { bbox } = this.#plot;
    ctx.strokeStyle = ctx.fillStyle = colour("muted");
    ctx.font = `${10 * devicePixelRatio}px ui-sans-serif, system-ui, sans-serif`;
    ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
    for (const { x, text } of this.#shown.marks) {
      const left = Math.round(toX(x));
      ctx.beginPath();
      ctx.moveTo(left, bbox.top);
      ctx.lineTo(left, bbox.top + bbox.height);
      ctx.stroke();
      ctx.fillText(text, left + 4 * devicePixelRatio, bbox.top + 10 * devicePixelRatio);
    }
    ctx.setLineDash([]);
  }
}

type Along = (value: number) => number;

/** From a stretch of values to a stretch of pixels. */
function along(from: number, to: number, start: number, end: number, scale: Along): Along {
  const least = scale(from);
  const factor = (end - start) / (scale(to) - least);
  return (value) => start + (scale(value) - least) * factor;
}
