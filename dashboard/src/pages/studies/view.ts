// How one looks at a study, as it stands in the address.

import { param } from "../../url.ts";

/** The val_accuracy that time and GPU-hours are measured to. */
export const targetParam = param("target");
/** The figure of the bars and of the matrix. */
export const figureParam = param("figure", "wall_s");
export const rowParam = param("row");
export const columnParam = param("column");
export const sortParam = param("sort");

/** The target that was asked for; null leaves it to the study. What can be none is not asked for. */
export function targetNow(): number | null {
  const target = Number(targetParam.value);
  return target > 0 && target <= 1 ? target : null;
}
