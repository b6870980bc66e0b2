// What the keyboard does on a chart.

import { indexNearest, type Line } from "./lines.ts";
import { pan, type Scope, zoomBy } from "./scope.ts";

/** Do what a key asks for. Returns where the cursor is then, null where there is none; undefined: not a key of charts. */
export function cursorKeys(event: KeyboardEvent, scope: Scope, lines: readonly Line[]): number | null | undefined {
  const range = scope.range.peek();
  if (range === null || event.ctrlKey || event.metaKey || event.altKey) return undefined;
  const at = scope.cursor.peek() ?? range[1];
  switch (event.key) {
    case "ArrowLeft":
    case "ArrowRight": {
      const way = event.key === "ArrowLeft" ? -1 : 1;
      if (event.shiftKey) pan(scope, way * 0.2);
      else scope.cursor.value = stepped(lines, at, way, scope.cursor.peek() === null);
      break;
    }
    case "Home":
      scope.cursor.value = range[0];
      break;
    case "End":
      scope.cursor.value = range[1];
      break;
    case "+":
    case "=":
      zoomBy(scope, 0.5, at);
      break;
    case "-":
      zoomBy(scope, 2, at);
      break;
    case "0":
    case "Escape":
      scope.zoom.value = null;
      scope.cursor.value = null;
      break;
    default:
      return undefined;
  }
  return scope.cursor.peek();
}

/** The next point of the line with the most of them. */
function stepped(lines: readonly Line[], at: number, way: 1 | -1, isFirst: boolean): number {
  const densest = lines.reduce<Line | undefined>(
    (best, line) => (line.xs.length > (best?.xs.length ?? 0) ? line : best),
    undefined,
  );
  if (densest === undefined) return at;
  const now = indexNearest(densest.xs, at);
  const next = isFirst ? now : Math.min(densest.xs.length - 1, Math.max(0, now + way));
  return densest.xs[next] as number;
}
