// The settings of a study's page in the address.

import { param } from "../../url.ts";

/** The value of the goal to which time and slot time are measured. */
export const targetParam = param("target");
/** `keep`: runs that stalled count in the figures of speed. */
export const outliersParam = param("outliers");
/** The figure of the bars and of the matrix; empty for the one that suits the study. */
export const figureParam = param("figure");
/** Metrics with a column beside those that have one by default. */
export const metricsParam = param("m");
export const rowParam = param("row");
export const columnParam = param("column");
export const sortParam = param("sort");

/** The target in the address; null means the study's own. An invalid target is ignored. */
export function targetNow(): number | null {
  const target = Number(targetParam.value);
  return targetParam.value !== "" && Number.isFinite(target) ? target : null;
}
