// The files of charts that are drawn as SVG on the page: of bars, points and parallel coordinates. The picture has the
// title and the legend above the drawing, on white whatever the theme is.

import { type Cell, csvLine } from "../../csv.ts";
import { fileStem } from "../../format.ts";
import { saveAs } from "../../save.ts";
import { colour, inLight } from "../../theme.ts";
import type { Entry } from "../frame.tsx";
import { drawHeading, RATIO, WIDTH } from "./drawing.ts";
import { canvasPng, type Format } from "./files.ts";
import { SvgContext } from "./svg_context.ts";

interface Drawing {
  readonly title: string;
  readonly svg: SVGSVGElement;
  readonly entries: readonly Entry[];
  /** The figures. The first row has the names of the columns. */
  readonly cells: () => readonly (readonly Cell[])[];
}

export async function saveDrawing(drawing: Drawing, format: Format): Promise<void> {
  saveAs(`${fileStem(drawing.title)}.${format.toLowerCase()}`, await fileOf(drawing, format));
}

async function fileOf(drawing: Drawing, format: Format): Promise<Blob> {
  // With the mark by which Excel knows UTF-8.
  if (format === "CSV") return new Blob(["\ufeff", ...drawing.cells().map(csvLine)], { type: "text/csv" });
  const [text, height] = inLight(() => pictureOf(drawing));
  if (format === "SVG") return new Blob([text], { type: "image/svg+xml" });
  const image = new Image();
  image.src = `data:image/svg+xml,${encodeURIComponent(text)}`;
  await image.decode();
  return canvasPng(height, (context) => context.drawImage(image, 0, 0, WIDTH * RATIO, height * RATIO));
}

const LARGEST = 1.3; // times its size on the page

function pictureOf({ title, svg, entries }: Drawing): [text: string, height: number] {
  const context = new SvgContext();
  const named = entries.filter(({ name }) => name !== "");
  const top = drawHeading(
    context,
    title,
    named.map((entry) => ({ ...entry, colour: colour(entry.colour) })),
  );
  const { width, height } = svg.getBoundingClientRect();
  const scale = Math.min(LARGEST, WIDTH / width);
  const copy = copyOf(svg);
  const place = {
    x: ((WIDTH - scale * width) / 2) * RATIO,
    y: top * RATIO,
    width: scale * width * RATIO,
    height: scale * height * RATIO,
    viewBox: `0 0 ${width} ${height}`,
  };
  for (const [name, value] of Object.entries(place)) copy.setAttribute(name, String(value));
  context.add(new XMLSerializer().serializeToString(copy));
  const bottom = Math.ceil(top + scale * height);
  return [context.text(WIDTH, bottom, RATIO), bottom];
}

const KEPT = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "opacity", "paint-order"];
const OF_TEXT = ["font-family", "font-size", "font-weight"];

/** A drawing with the styles that the page gives it, so that it looks the same alone. */
function copyOf(svg: SVGSVGElement): SVGSVGElement {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  const originals = svg.querySelectorAll("*");
  for (const [i, element] of copy.querySelectorAll("*").entries()) {
    element.removeAttribute("class");
    if (element.tagName === "g" || element.tagName === "title") continue;
    const style = getComputedStyle(originals[i] as Element);
    // As attributes: a style in the text of an element is what the Content-Security-Policy forbids.
    for (const name of element.tagName === "text" ? [...KEPT, ...OF_TEXT] : KEPT)
      element.setAttribute(name, inNumbers(style.getPropertyValue(name)));
  }
  return copy;
}

/** A colour that is mixed in another space, as programs that draw SVG know it; other values stay. */
function inNumbers(value: string): string {
  if (!/^(oklab|color)/.test(value)) return value;
  const probe = document.createElement("canvas").getContext("2d") as CanvasRenderingContext2D;
  probe.fillStyle = value;
  probe.fillRect(0, 0, 1, 1);
  return `rgb(${[...probe.getImageData(0, 0, 1, 1).data].slice(0, 3)})`;
}
