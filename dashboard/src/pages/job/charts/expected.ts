// The metrics that a live job of Hora's own loop will report, so that its charts have their places before they come.
// Pure. As in `jobs/model/tasks.py`.

import type { Job } from "../../../api/types.ts";
import { isScript } from "../../../metrics.ts";

const TRAINED = {
  classification: ["loss", "accuracy"],
  regression: ["loss", "mae"],
  multilabel: ["loss", "f1"],
} as const;
const VALIDATED = {
  classification: ["loss", "accuracy"],
  regression: ["loss", "mae", "rmse"],
  multilabel: ["loss", "auc", "f1"],
} as const;

export const NOTHING: ReadonlySet<string> = new Set();

/** None for a script, a probe, or an ended job. */
export function expectedMetrics({ spec, dataset, ended_at }: Pick<Job, "spec" | "dataset" | "ended_at">) {
  if (ended_at !== null || isScript(spec) || spec["probe"] != null) return NOTHING;
  const wanted = dataset?.task ?? spec["task"];
  const task = typeof wanted === "string" && wanted in TRAINED ? (wanted as keyof typeof TRAINED) : "classification";
  const classes = dataset?.classes?.length ?? Number.POSITIVE_INFINITY; // until the data is open
  const ofClasses = task !== "classification" ? [] : classes > 5 ? ["top5"] : classes === 2 ? ["auc"] : [];
  return new Set<string>([...TRAINED[task], ...[...VALIDATED[task], ...ofClasses].map((name) => `val_${name}`)]);
}
