// Mouse and touch gestures on a chart. Drag: zoom, up or down: of the y axis; with Shift: pan; double click: all; Ctrl and wheel, or two fingers:
// zoom; a sideways wheel, or Shift and wheel: pan; one finger: the cursor, while the page still scrolls up and down.

import { pan, placeAt, type Scope, zoomBy, zoomTo } from "./scope.ts";

const LEAST_PX = 5; // a shorter drag is a click

interface Handlers {
  /** Show the selection, in pixels from the left edge, or from the upper one; null hides it. */
  readonly select: (stretch: readonly [number, number] | null, isVertical: boolean) => void;
  /** Zoom the y axis to a stretch in pixels from the upper edge; null shows all of it. */
  readonly cut: (stretch: readonly [number, number] | null) => void;
}

export class Gestures {
  readonly #element: HTMLElement;
  readonly #scope: Scope;
  readonly #handlers: Handlers;
  /** The position of each finger, or of the pressed mouse. */
  readonly #pressed = new Map<number, number>();
  /** Where the selection began, from the left and upper edge. */
  #selectsFrom: readonly [left: number, top: number] | null = null;
  #pans = false;

  constructor(element: HTMLElement, scope: Scope, handlers: Handlers) {
    this.#element = element;
    this.#scope = scope;
    this.#handlers = handlers;
    element.addEventListener("pointerdown", (event) => this.#press(event));
    element.addEventListener("pointermove", (event) => this.#move(event));
    element.addEventListener("pointerup", (event) => this.#release(event, true));
    element.addEventListener("pointercancel", (event) => this.#release(event, false));
    element.addEventListener("pointerleave", (event) => this.#leave(event));
    element.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    element.addEventListener("dblclick", () => {
      scope.zoom.value = null;
      handlers.cut(null);
    });
  }

  #left({ clientX }: MouseEvent): number {
    const { left, width } = this.#element.getBoundingClientRect();
    return Math.min(width, Math.max(0, clientX - left));
  }

  #top({ clientY }: MouseEvent): number {
    const { top, height } = this.#element.getBoundingClientRect();
    return Math.min(height, Math.max(0, clientY - top));
  }

  #press(event: PointerEvent): void {
    if (event.button !== 0) return;
    const left = this.#left(event);
    this.#element.setPointerCapture(event.pointerId);
    this.#pressed.set(event.pointerId, left);
    this.#pans = event.shiftKey;
    if (event.pointerType === "mouse" && !event.shiftKey) this.#selectsFrom = [left, this.#top(event)];
    this.#point(left);
  }

  #move(event: PointerEvent): void {
    const left = this.#left(event);
    const before = this.#pressed.get(event.pointerId);
    if (before !== undefined && this.#pressed.size === 2) this.#pinch(event.pointerId, before, left);
    else if (before !== undefined && this.#pans) pan(this.#scope, (before - left) / this.#width());
    if (before !== undefined) this.#pressed.set(event.pointerId, left);
    if (this.#selectsFrom !== null) {
      const [stretch, isVertical] = this.#selection(this.#selectsFrom, event);
      this.#handlers.select(stretch, isVertical);
    }
    this.#point(left);
  }

  #release(event: PointerEvent, isLifted: boolean): void {
    this.#pressed.delete(event.pointerId);
    const from = this.#selectsFrom;
    if (from === null) return;
    this.#selectsFrom = null;
    this.#handlers.select(null, false);
    const [[start, end], isVertical] = this.#selection(from, event);
    if (!isLifted || end - start < LEAST_PX) return;
    if (isVertical) this.#handlers.cut([start, end]);
    else zoomTo(this.#scope, this.#at(start), this.#at(end));
  }

  /** What a drag selects: a stretch of the axis along which it is longer. */
  #selection([left, top]: readonly [number, number], event: PointerEvent): [[number, number], isVertical: boolean] {
    const [x, y] = [ordered(left, this.#left(event)), ordered(top, this.#top(event))];
    const isVertical = y[1] - y[0] > x[1] - x[0];
    return [isVertical ? y : x, isVertical];
  }

  /** The cursor goes when the mouse leaves. It stays when a finger is lifted, so that its values can be read. */
  #leave(event: PointerEvent): void {
    if (event.pointerType === "mouse") this.#scope.cursor.value = null;
  }

  #wheel(event: WheelEvent): void {
    const sideways = event.shiftKey && event.deltaX === 0 ? event.deltaY : event.deltaX;
    if (event.ctrlKey || event.metaKey) {
      zoomBy(this.#scope, 1.002 ** pixels(event.deltaY, event), this.#at(this.#left(event)));
    } else if (this.#scope.zoom.peek() !== null && Math.abs(sideways) > (event.shiftKey ? 0 : Math.abs(event.deltaY))) {
      pan(this.#scope, pixels(sideways, event) / this.#width());
    } else return;
    event.preventDefault();
  }

  /** Zoom so that the same points stay below the two fingers. */
  #pinch(id: number, before: number, now: number): void {
    const [other] = [...this.#pressed].filter(([fingerId]) => fingerId !== id).map(([, left]) => left);
    if (other === undefined) return;
    const factor = Math.max(1, Math.abs(before - other)) / Math.max(1, Math.abs(now - other));
    zoomBy(this.#scope, factor, this.#at(other));
  }

  #point(left: number): void {
    this.#scope.cursor.value = this.#at(left);
  }

  #at(left: number): number {
    return placeAt(this.#scope, left / this.#width());
  }

  #width(): number {
    return this.#element.clientWidth;
  }
}

function ordered(a: number, b: number): [number, number] {
  return a < b ? [a, b] : [b, a];
}

/** How far a wheel was turned. Some mice count lines. */
function pixels(delta: number, event: WheelEvent): number {
  return event.deltaMode === WheelEvent.DOM_DELTA_PIXEL ? delta : delta * 16;
}
