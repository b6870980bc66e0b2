// What a batch probe has found so far. Used by the parts of a job's page.

import type { ProbeFindings, ProbePoint } from "../../../api/types.ts";

/** The batch with the most samples a second; undefined before one is measured. */
export function bestPoint(probe: ProbeFindings | null): ProbePoint | undefined {
  const measured = (probe?.points ?? []).filter((point) => point.samples_per_s != null);
  return measured.reduce<ProbePoint | undefined>(
    (best, point) => (best === undefined || speedOf(point) > speedOf(best) ? point : best),
    undefined,
  );
}

function speedOf(point: ProbePoint): number {
  return point.samples_per_s ?? 0;
}
