// Reads the curves of the job that a job continues. None if that job was deleted.

import { useMemo } from "preact/hooks";
import { usePolled } from "../../../api/polled.ts";
import type { Job, Metrics } from "../../../api/types.ts";
import { isScript } from "../../../metrics.ts";
import { pathWith } from "../../../query.ts";
import { metricsFrom } from "./answers.ts";
import type { Before } from "./before.ts";
import { MOST_POINTS } from "./requests.ts";
import type { Axis } from "./view.ts";

const ONCE = { every_s: Number.POSITIVE_INFINITY };

/** On the axis of time the two jobs have no common start. */
export function useBefore({ continued_from: origin }: Job, axis: Axis): Before | undefined {
  const { data: job } = usePolled<Job>(origin ? `/v1/jobs/${origin.job}` : null, ONCE);
  const path = job === undefined || axis === "time" ? null : `/v1/jobs/${job.id}/metrics`;
  const rank = job && isScript(job.spec) ? [-1, 0] : [-1];
  const { data } = usePolled<Metrics>(path && pathWith(path, { axis, rank, max_points: MOST_POINTS }), ONCE);
  const epoch = origin?.epoch ?? 0;
  return useMemo(() => {
    if (job === undefined || data === undefined) return undefined;
    const perEpoch = axis === "epoch" ? 1 : isScript(job.spec) ? null : job.plan["steps_per_epoch"];
    const end = typeof perEpoch === "number" ? epoch * perEpoch : Number.POSITIVE_INFINITY;
    return { name: job.name, metrics: metricsFrom(data.series), end };
  }, [job, data, axis, epoch]);
}
