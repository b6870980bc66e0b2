// Smoothing of curves. The moving average is that of TensorBoard and W&B, so that the same weight looks the same here.

import type { Numbers } from "./lines.ts";

/**
 * The weight of the moving average, in [0, 1); or another kind, with the weight of a moving average that reaches as
 * far. A text, so that it is the same value with each render.
 */
export type Smoothing = number | `${Kind}:${number}`;

type Kind = "mean" | "gauss";

export const MOST_SMOOTH = 0.99;

/** What a text of the address says: `0.6`, `mean:0.6`. */
export function smoothingFrom(text: string, otherwise: number): Smoothing {
  const [, kind, digits] = /^(?:(mean|gauss):)?(\d*\.?\d+)$/.exec(text) ?? [];
  return digits === undefined ? otherwise : smoothingOf(kind ?? "", Number(digits));
}

/** An empty kind is the moving average. */
export function smoothingOf(kind: string, weight: number): Smoothing {
  const least = Math.min(MOST_SMOOTH, weight);
  return kind === "" ? least : `${kind as Kind}:${least}`;
}

export function partsOf(smoothing: Smoothing): readonly [kind: Kind | "", weight: number] {
  const [kind, weight] = String(smoothing).split(":") as [Kind, string?];
  return weight === undefined ? ["", Number(kind)] : [kind, Number(weight)];
}

export function weightOf(smoothing: Smoothing): number {
  return partsOf(smoothing)[1];
}

/**
 * The weights of a point and of those up to so many places away. A moving average reaches `r` = w / (1 - w) points
 * back, the mean of its ages. The running mean is over `r` points on each side, and the Gaussian has the variance of
 * that: sigma = r / sqrt(3), of a uniform distribution. It ends at three sigma.
 */
export function kernelOf(kind: Kind, weight: number): readonly number[] {
  const reach = weight / (1 - weight);
  if (kind === "mean") return new Array(Math.round(reach) + 1).fill(1);
  const sigma = reach / Math.sqrt(3);
  return Array.from({ length: Math.ceil(3 * sigma) + 1 }, (_, k) =>
    k === 0 ? 1 : Math.exp(-(k ** 2) / (2 * sigma ** 2)),
  );
}

/** A smooth line at each of the points. NaN stays a gap. */
export function smoothed(xs: Numbers, ys: Numbers, smoothing: Smoothing): Float64Array {
  const [kind, weight] = partsOf(smoothing);
  return kind === "" ? movingAverage(xs, ys, weight) : weighted(ys, kernelOf(kind, weight));
}

/**
 * The exponential moving average, without the bias of its start (Kingma and Ba 2015, section 3): each value is
 * sum(w^k y) / sum(w^k) over the values so far. `w` is `weight` to the power of the distance between two points, in
 * average distances. So thinned parts are smoothed as much as others.
 */
function movingAverage(xs: Numbers, ys: Numbers, weight: number): Float64Array {
  const result = new Float64Array(ys.length).fill(Number.NaN);
  const averageDistance = xs.length > 1 ? ((xs[xs.length - 1] as number) - (xs[0] as number)) / (xs.length - 1) : 1;
  let mean = 0;
  let norm = 0;
  let lastX = Number.NaN;
  for (let i = 0; i < ys.length; i++) {
    const y = ys[i] as number;
    const x = xs[i] as number;
    if (!Number.isFinite(y)) continue;
    const distance = Number.isNaN(lastX) || averageDistance <= 0 ? 1 : (x - lastX) / averageDistance;
    const kept = weight ** Math.max(distance, 1e-9);
    mean = kept * mean + (1 - kept) * y;
    norm = kept * norm + (1 - kept);
    result[i] = norm > 0 ? mean / norm : y;
    lastX = x;
  }
  return result;
}

/**
 * The average of the points around each one, sum(K y) / sum(K) (Nadaraya 1964; Watson 1964), by their count and not by
 * their distance. At the ends there are fewer.
 */
function weighted(ys: Numbers, kernel: readonly number[]): Float64Array {
  return Float64Array.from(ys, (here, i) => {
    if (!Number.isFinite(here)) return Number.NaN;
    let [sum, norm] = [0, 0];
    for (let k = 1 - kernel.length; k < kernel.length; k++) {
      const y = ys[i + k];
      if (y === undefined || !Number.isFinite(y)) continue;
      const weight = kernel[Math.abs(k)] as number;
      sum += weight * y;
      norm += weight;
    }
    return sum / norm;
  });
}
