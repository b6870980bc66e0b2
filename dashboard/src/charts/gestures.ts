// Mouse and touch gestures on a chart. Drag: zoom; with Shift: pan; double click: all; Ctrl and wheel, or two fingers:
// zoom; a sideways wheel, or Shift and wheel: pan; one finger: the cursor, while the page still scrolls up and down.

import { pan, placeAt, type Scope, zoomBy, zoomTo } from "./scope.ts";

const LEAST_PX = 5; // a shorter drag is a click

export class Gestures {
  readonly #element: HTMLElement;
  readonly #scope: Scope;
  readonly #select: (stretch: readonly [number, number] | null) => void;
  /** The position of each finger, or of the pressed mouse. */
  readonly #pressed = new Map<number, number>();
  #selectsFrom: number | null = null;
  #pans = false;

  /** `select` shows the selection, in pixels from the left edge; null hides it. */
  constructor(element: HTMLElement, scope: Scope, select: (stretch: readonly [number, number] | null) => void) {
    this.#element = element;
    this.#scope = scope;
    this.#select = select;
    element.addEventListener("pointerdown", (event) => this.#press(event));
    element.addEventListener("pointermove", (event) => this.#move(event));
    element.addEventListener("pointerup", (event) => this.#release(event, true));
    element.addEventListener("pointercancel", (event) => this.#release(event, false));
    element.addEventListener("pointerleave", (event) => this.#leave(event));
    element.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    element.addEventListener("dblclick", () => {
      scope.zoom.value = null;
    });
  }

  #left({ clientX }: MouseEvent): number {
    const { left, width } = this.#element.getBoundingClientRect();
    return Math.min(width, Math.max(0, clientX - left));
  }

  #press(event: PointerEvent): void {
    if (event.button !== 0) return;
    const left = this.#left(event);
    this.#element.setPointerCapture(event.pointerId);
    this.#pressed.set(event.pointerId, left);
    this.#pans = event.shiftKey;
    if (event.pointerType === "mouse" && !event.shiftKey) this.#selectsFrom = left;
    this.#point(left);
  }

  #move(event: PointerEvent): void {
    const left = this.#left(event);
    const before = this.#pressed.get(event.pointerId);
    if (before !== undefined && this.#pressed.size === 2) this.#pinch(event.pointerId, before, left);
    else if (before !== undefined && this.#pans) pan(this.#scope, (before - left) / this.#width());
    if (before !== undefined) this.#pressed.set(event.pointerId, left);
    if (this.#selectsFrom !== null) this.#select(ordered(this.#selectsFrom, left));
    this.#point(left);
  }

  #release(event: PointerEvent, isLifted: boolean): void {
    this.#pressed.delete(event.pointerId);
    const from = this.#selectsFrom;
    if (from === null) return;
    this.#selectsFrom = null;
    this.#select(null);
    const [start, end] = ordered(from, this.#left(event));
    if (isLifted && end - start >= LEAST_PX) zoomTo(this.#scope, this.#at(start), this.#at(end));
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
