// The line of a small chart with fixed scales: unlike in a sparkline, 3 % stays low, and old samples stay left.

/** The path of an SVG through points in a box; `span` and `top` are the ends of the scales. Null in `y` is a gap. */
export function tracePath(
  x: readonly number[],
  y: readonly (number | null)[],
  span: number,
  top: number,
  width: number,
  height: number,
): string {
  let path = "";
  let isGap = true;
  y.forEach((value, index) => {
    if (value === null) {
      isGap = true;
      return;
    }
    const across = (width * (x[index] as number)) / span;
    const down = height * (1 - Math.min(1, Math.max(0, top > 0 ? value / top : 0)));
    path += `${isGap ? "M" : "L"}${across.toFixed(1)} ${down.toFixed(1)}`;
    isGap = false;
  });
  return path;
}

/** The newest value; null if it is older than `fresh` before the end of the span. */
export function newest(
  x: readonly number[],
  y: readonly (number | null)[],
  span: number,
  fresh: number,
): number | null {
  const last = y.length - 1;
  return last >= 0 && (x[last] as number) >= span - fresh ? (y[last] as number | null) : null;
}

/** The greatest value of some series; 0 where there is none. */
export function greatest(...series: readonly (readonly (number | null)[])[]): number {
  return Math.max(0, ...series.flatMap((values) => values.filter((value) => value !== null)));
}
