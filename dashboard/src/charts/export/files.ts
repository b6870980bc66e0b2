// The files of a chart: a picture as PNG or SVG, on white whatever the theme is, and the points as CSV.

import { saveAs } from "../../save.ts";
import { inLight } from "../../theme.ts";
import { draw, type Picture, RATIO, WIDTH } from "./drawing.ts";
import { pointsCsv } from "./points.ts";
import { SvgContext } from "./svg_context.ts";

export const FORMATS = ["PNG", "SVG", "CSV"] as const;
export type Format = (typeof FORMATS)[number];

/** Save what a chart shows. `stem` is the name of the file without its ending. */
export async function save(picture: Picture, format: Format, stem: string): Promise<void> {
  saveAs(`${stem}.${format.toLowerCase()}`, await FILES[format](picture));
}

const FILES: Record<Format, (picture: Picture) => Blob | Promise<Blob>> = {
  PNG: pngOf,
  SVG: (picture) => new Blob([svgOf(picture)], { type: "image/svg+xml" }),
  CSV: (picture) => new Blob([pointsCsv(picture)], { type: "text/csv" }),
};

function svgOf(picture: Picture): string {
  const context = new SvgContext();
  const height = inLight(() => draw(context, picture));
  return context.text(WIDTH, height, RATIO);
}

function pngOf(picture: Picture): Promise<Blob> {
  const height = inLight(() => draw(new SvgContext(), picture));
  return canvasPng(height, (context) => inLight(() => draw(context, picture)));
}

/** What is drawn on a canvas of the pictures' width. */
export function canvasPng(height: number, paint: (context: CanvasRenderingContext2D) => void): Promise<Blob> {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [WIDTH * RATIO, height * RATIO];
  paint(canvas.getContext("2d") as CanvasRenderingContext2D);
  return new Promise((resolve, reject) =>
    canvas.toBlob((blob) => (blob === null ? reject(new Error("no picture")) : resolve(blob))),
  );
}
