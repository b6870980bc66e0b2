// Keyboard control of a chart.

import { indexNearest, type Line } from "./lines.ts";
import { pan, reveal, type Scope, showAll, zoomBy } from "./scope.ts";

/** The keys in words, for the list of keys. They work on the chart that has the focus. */
export const ROWS = [
  ["← →", "move the cursor"],
  ["Shift ← →", "move what is in view"],
  ["Page Up, Page Down", "move the cursor by a tenth"],
  ["Home, End", "to the first or the last point in view"],
  ["+ −", "zoom in or out"],
  ["0, Esc", "show all"],
] as const;

/** Handle a key. Returns the new cursor, null if there is none, undefined if charts do not use the key. */
export function cursorKeys(event: KeyboardEvent, scope: Scope, lines: readonly Line[]): number | null | undefined {
  const range = scope.range.peek();
  if (range === null || event.ctrlKey || event.metaKey || event.altKey) return undefined;
  const cursor = scope.cursor.peek() ?? range[1];
  switch (event.key) {
    case "ArrowLeft":
    case "ArrowRight": {
      const way = event.key === "ArrowLeft" ? -1 : 1;
      if (event.shiftKey) pan(scope, way * 0.2);
      else point(scope, stepped(lines, cursor, way, scope.cursor.peek() === null));
      break;
    }
    case "PageUp":
    case "PageDown":
      point(scope, within(range, cursor + (event.key === "PageUp" ? 0.1 : -0.1) * (range[1] - range[0])));
      break;
    case "Home":
      point(scope, range[0]);
      break;
    case "End":
      point(scope, range[1]);
      break;
    case "+":
    case "=":
      zoomBy(scope, 0.5, cursor);
      break;
    case "-":
      zoomBy(scope, 2, cursor);
      break;
    case "0":
    case "Escape":
      if (scope.zoom.peek() === null && scope.cuts.peek().size === 0 && scope.cursor.peek() === null) return undefined; // a dialog closes
      showAll(scope);
      scope.cursor.value = null;
      break;
    default:
      return undefined;
  }
  return scope.cursor.peek();
}

function point(scope: Scope, x: number): void {
  reveal(scope, x);
  scope.cursor.value = x;
}

function within([least, greatest]: readonly [number, number], x: number): number {
  return Math.min(greatest, Math.max(least, x));
}

/** The next point of the line with the most points; on the first key press, the nearest one. */
function stepped(lines: readonly Line[], at: number, way: 1 | -1, isFirst: boolean): number {
  const xs = lines.reduce<Line["xs"]>((most, line) => (line.xs.length > most.length ? line.xs : most), []);
  let next = indexNearest(xs, at);
  if (!isFirst) while (xs[next] !== undefined && (xs[next] as number) * way <= at * way) next += way;
  return xs[Math.min(xs.length - 1, Math.max(0, next))] ?? at;
}
