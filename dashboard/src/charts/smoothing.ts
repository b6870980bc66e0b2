// Smoothing of curves, as TensorBoard and W&B do it, so that the same weight looks the same here.

import type { Numbers } from "./lines.ts";

/**
 * The exponential moving average, freed of the bias of its start (Kingma and Ba 2015, section 3): each value is
 * sum(w^k y) / sum(w^k) over what came before. Where points lie further apart than on average, `weight` counts once for
 * each distance that fits between, so thinned parts are smoothed as much. NaN stays a gap. `weight` is in [0, 1).
 */
export function smoothed(xs: Numbers, ys: Numbers, weight: number): Float64Array {
  const result = new Float64Array(ys.length).fill(Number.NaN);
  const usual = xs.length > 1 ? ((xs[xs.length - 1] as number) - (xs[0] as number)) / (xs.length - 1) : 1;
  let mean = 0;
  let norm = 0;
  let lastX = Number.NaN;
  for (let i = 0; i < ys.length; i++) {
    const y = ys[i] as number;
    const x = xs[i] as number;
    if (!Number.isFinite(y)) continue;
    const distance = Number.isNaN(lastX) || usual <= 0 ? 1 : (x - lastX) / usual;
    const kept = weight ** Math.max(distance, 1e-9);
    mean = kept * mean + (1 - kept) * y;
    norm = kept * norm + (1 - kept);
    result[i] = norm > 0 ? mean / norm : y;
    lastX = x;
  }
  return result;
}
