// The settings of a study's page in the address.

import { param } from "../../url.ts";

/** The target val_accuracy of time and GPU-hours. */
export const targetParam = param("target");
/** The figure of the bars and of the matrix. */
export const figureParam = param("figure", "wall_s");
export const rowParam = param("row");
export const columnParam = param("column");
export const sortParam = param("sort");

/** The target in the address; null means the study's own. An invalid target is ignored. */
export function targetNow(): number | null {
  const target = Number(targetParam.value);
  return target > 0 && target <= 1 ? target : null;
}
