// The line of a sparkline, as the path of an SVG. Every point is drawn as it is: no mean, no smoothing.

export interface Spark {
  /** Lines through the points that follow each other. */
  readonly path: string;
  /** The position of the newest point. */
  readonly end: readonly [x: number, y: number];
}

/** Points in a box of `width` x `height`, `space` px away from its edges; null where there is no point. */
export function sparkOf(
  x: readonly number[],
  y: readonly (number | null)[],
  width: number,
  height: number,
  space: number,
): Spark | null {
  let [xLeast, xMost, yLeast, yMost] = [Infinity, -Infinity, Infinity, -Infinity];
  y.forEach((value, index) => {
    if (value === null) return;
    const at = x[index] as number;
    xLeast = Math.min(xLeast, at);
    xMost = Math.max(xMost, at);
    yLeast = Math.min(yLeast, value);
    yMost = Math.max(yMost, value);
  });
  if (xLeast > xMost) return null;
  // Constant values are a line in the middle. A single point is at the right, where the newest point is.
  const across = (at: number): number =>
    xMost === xLeast ? width - space : space + ((at - xLeast) / (xMost - xLeast)) * (width - 2 * space);
  const up = (value: number): number =>
    yMost === yLeast ? height / 2 : height - space - ((value - yLeast) / (yMost - yLeast)) * (height - 2 * space);
  let path = "";
  let end: readonly [number, number] = [0, 0];
  let isGap = true;
  y.forEach((value, index) => {
    if (value === null) {
      isGap = true;
      return;
    }
    end = [rounded(across(x[index] as number)), rounded(up(value))];
    path += `${isGap ? "M" : "L"}${end[0]} ${end[1]}`;
    isGap = false;
  });
  return { path, end };
}

function rounded(px: number): number {
  return Math.round(px * 10) / 10;
}
