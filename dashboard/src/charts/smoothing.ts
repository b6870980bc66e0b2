// Smoothing of curves, as TensorBoard and W&B do it, so that the same weight looks the same here.

import type { Numbers } from "./lines.ts";

/**
 * The exponential moving average, without the bias of its start (Kingma and Ba 2015, section 3): each value is
 * sum(w^k y) / sum(w^k) over the values so far. `w` is `weight` to the power of the distance between two points, in
 * average distances. So thinned parts are smoothed as much as others. NaN stays a gap. `weight` is in [0, 1).
 */
export function smoothed(xs: Numbers, ys: Numbers, weight: number): Float64Array {
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
