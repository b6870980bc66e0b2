// A canvas whose drawing is an SVG: so the pen that draws a chart on the page also writes its file.
//
// Only what `pen.ts` and `drawing.ts` use is here. Widths of texts are estimates, as no font is loaded.

import type { Brush } from "../pen.ts";

const LETTER = 0.56; // the width of an average letter, as a share of the size of the font

const ANCHORS: Partial<Record<CanvasTextAlign, string>> = { center: "middle", right: "end" };

export class SvgContext implements Brush {
  fillStyle = "";
  strokeStyle = "";
  globalAlpha = 1;
  lineWidth = 1;
  lineJoin: CanvasLineJoin = "round";
  lineCap: CanvasLineCap = "butt";
  lineDashOffset = 0;
  font = "";
  textAlign: CanvasTextAlign = "left";
  textBaseline: CanvasTextBaseline = "alphabetic";
  readonly #parts: string[] = [];
  readonly #groups: number[] = []; // how many elements are open since each `save`
  #dash: readonly number[] = [];
  #path = "";
  #clips = 0;

  /** The whole file, `width` by `height` on a page, of a drawing that is `ratio` times as large. */
  text(width: number, height: number, ratio: number): string {
    const size = `width="${width}" height="${height}" viewBox="0 0 ${width * ratio} ${height * ratio}"`;
    return `<svg xmlns="http://www.w3.org/2000/svg" ${size}>${this.#parts.join("")}</svg>\n`;
  }

  /** Add elements as they are. */
  add(markup: string): void {
    this.#parts.push(markup);
  }

  save(): void {
    this.#groups.push(0);
  }

  restore(): void {
    const open = this.#groups.pop() ?? 0;
    this.#parts.push("</g>".repeat(open));
    this.#dash = [];
  }

  beginPath(): void {
    this.#path = "";
  }

  moveTo(x: number, y: number): void {
    this.#path += `M${short(x)} ${short(y)}`;
  }

  lineTo(x: number, y: number): void {
    this.#path += `${this.#path === "" ? "M" : "L"}${short(x)} ${short(y)}`;
  }

  rect(x: number, y: number, width: number, height: number): void {
    this.#path += `M${short(x)} ${short(y)}h${short(width)}v${short(height)}h${short(-width)}z`;
  }

  /** A whole circle. */
  arc(x: number, y: number, radius: number): void {
    const [size, half] = [short(2 * radius), short(radius)];
    this.#path += `M${short(x - radius)} ${short(y)}a${half} ${half} 0 1 0 ${size} 0a${half} ${half} 0 1 0 -${size} 0`;
  }

  clip(): void {
    this.#clips += 1;
    this.#parts.push(
      `<clipPath id="c${this.#clips}"><path d="${this.#path}"/></clipPath><g clip-path="url(#c${this.#clips})">`,
    );
    this.#groups.push((this.#groups.pop() ?? 0) + 1);
  }

  setLineDash(dash: readonly number[]): void {
    this.#dash = dash;
  }

  stroke(): void {
    if (this.#path === "") return;
    const dash =
      this.#dash.length === 0
        ? ""
        : ` stroke-dasharray="${this.#dash.join(" ")}" stroke-dashoffset="${short(this.lineDashOffset)}"`;
    const pen = `stroke-width="${short(this.lineWidth)}" stroke-linejoin="${this.lineJoin}" stroke-linecap="${this.lineCap}"${dash}`;
    this.#parts.push(`<path d="${this.#path}" fill="none" stroke="${this.strokeStyle}" ${pen}${this.#alpha()}/>`);
  }

  fill(): void {
    if (this.#path !== "") this.#parts.push(`<path d="${this.#path}" fill="${this.fillStyle}"${this.#alpha()}/>`);
  }

  fillRect(x: number, y: number, width: number, height: number): void {
    this.beginPath();
    this.rect(x, y, width, height);
    this.fill();
  }

  fillText(text: string, x: number, y: number): void {
    const anchor = ANCHORS[this.textAlign] ?? "start";
    const place = `x="${short(x)}" y="${short(y)}" text-anchor="${anchor}"`;
    const style = this.textBaseline === "middle" ? ' dominant-baseline="central"' : "";
    this.#parts.push(
      `<text ${place}${style} style="font:${this.font}" fill="${this.fillStyle}">${escaped(text)}</text>`,
    );
  }

  measureText(text: string): { width: number } {
    return { width: text.length * LETTER * (Number.parseFloat(/[\d.]+px/.exec(this.font)?.[0] ?? "") || 10) };
  }

  #alpha(): string {
    return this.globalAlpha === 1 ? "" : ` opacity="${this.globalAlpha}"`;
  }
}

function short(value: number): string {
  return String(Math.round(value * 100) / 100);
}

/** Names come from people. What XML cannot hold is left out. */
function escaped(text: string): string {
  return text
    .replace(/[^\t\n\r\u{20}-\u{d7ff}\u{e000}-\u{fffd}\u{10000}-\u{10ffff}]/gu, "")
    .replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`);
}
