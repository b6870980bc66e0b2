// One chart of many points, and the same points as one path on a bare canvas. `python -m bench dashboard` measures both.

import "../src/styles/base.css";
import { render } from "preact";
import type { Line } from "../src/charts/lines.ts";
import { Plot } from "../src/charts/plot.tsx";
import { newScope, pan, zoomBy } from "../src/charts/scope.ts";

const POINTS = 100_000;
const FRAMES = 120;
const LINE_PX = 1.6;

const xs = Float64Array.from({ length: POINTS }, (_, i) => i);
const ys = xs.map((x) => Math.exp(-x / 30_000) + 0.1 * Math.sin(x / 7) + 0.05 * ((x * 7919) % 13));
const line: Line = { key: "loss", name: "loss", xs, ys, colour: "run-0" };
const scope = newScope();

const place = document.getElementById("ours") as HTMLElement;
render(<Plot title="Loss" lines={[line]} scope={scope} xName="step" height={240} />, place);

/** Milliseconds that a frame takes to draw all points. Reading a pixel back waits until they are drawn. */
async function oursMs(): Promise<number> {
  const context = contextOf("#ours canvas");
  let begun = 0;
  requestAnimationFrame(() => {
    begun = performance.now();
  });
  scope.zoom.value = [0, POINTS - 1 - Math.random()]; // all but the last point; the chart is drawn in the same frame
  await nextFrame();
  context.getImageData(0, 0, 1, 1);
  return performance.now() - begun;
}

function naiveMs(): number {
  const { canvas: ours } = contextOf("#ours canvas");
  const context = contextOf("#naive");
  const { canvas } = context;
  canvas.width = ours.width;
  canvas.height = ours.height;
  const begun = performance.now();
  context.lineWidth = LINE_PX * devicePixelRatio;
  context.beginPath();
  for (let i = 0; i < POINTS; i++)
    context.lineTo(((xs[i] as number) / POINTS) * canvas.width, (1 - (ys[i] as number) / 2) * canvas.height);
  context.stroke();
  context.getImageData(0, 0, 1, 1);
  return performance.now() - begun;
}

/** Milliseconds from frame to frame while the chart moves a little in each. */
async function frames(move: (frame: number) => void): Promise<number[]> {
  scope.zoom.value = [POINTS * 0.1, POINTS * 0.9];
  const times: number[] = [];
  let last = await nextFrame();
  for (let frame = 0; frame < FRAMES; frame++) {
    move(frame);
    const now = await nextFrame();
    times.push(now - last);
    last = now;
  }
  return times;
}

const way = (frame: number): number => (frame % 40 < 20 ? 1 : -1);
const nextFrame = (): Promise<number> => new Promise(requestAnimationFrame);

function contextOf(selector: string): CanvasRenderingContext2D {
  return document.querySelector<HTMLCanvasElement>(selector)?.getContext("2d") as CanvasRenderingContext2D;
}

Object.assign(window, {
  oursMs,
  naiveMs,
  panning: () => frames((frame) => pan(scope, 0.01 * way(frame))),
  zooming: () => frames((frame) => zoomBy(scope, 1 - 0.02 * way(frame), POINTS / 2)),
});
