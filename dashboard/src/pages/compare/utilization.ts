// The utilization of many runs, from the api's answers to a curve for each run and metric. Pure.

import type { Utilization } from "../../api/types.ts";
import { pathWith } from "../../query.ts";
import { grouped } from "../job/charts/answers.ts";
import { joined, pointsOf } from "../job/charts/points.ts";
import { HOSTS, SLOTS } from "../job/charts/slots.ts";
import type { Curve } from "./curves.ts";
import { type GroupCurve, groupCurve } from "./group_curve.ts";

/** The form of each chart by its key: a metric of slots, or "hosts/" and one of hosts. */
export const FORMS = new Map([
  ...Object.entries(SLOTS),
  ...Object.entries(HOSTS).map(
    ([metric, form]) => [`hosts/${metric}`, { ...form, title: `Hosts: ${form.title}` }] as const,
  ),
]);

/** The means of parts of the time: of a run alone as many as a chart shows, of many runs fewer. */
export function utilizationPath(id: string, gpus: number, runCount: number): string {
  return pathWith(`/v1/jobs/${id}/utilization`, {
    metric: [...new Set([...Object.keys(SLOTS), ...Object.keys(HOSTS)])],
    max_points: 4, // the fewest: the bands have the means of all of them
    bands: Math.max(60, Math.min(200, Math.round(3000 / (gpus * runCount)))),
  });
}

/** By key of `FORMS`: the mean over the slots of a run, or over its hosts, with the range of several. */
export function utilizationOf({ series, hosts }: Utilization): ReadonlyMap<string, Curve> {
  const all = [
    ...series.map((one) => ({ ...one, key: one.metric })),
    ...hosts.map((one) => ({ ...one, key: `hosts/${one.metric}`, attempt: 0 })),
  ];
  return new Map([...grouped(all, ({ key }) => key)].map(([key, of]) => [key, meanOf(of)]));
}

type Series = Parameters<typeof pointsOf>[0] & { readonly attempt: number };

function meanOf(series: readonly Series[]): Curve {
  const attempts = [...grouped(series, ({ attempt }) => attempt).values()].map((of) => groupCurve(of.map(pointsOf)));
  const mean = column(attempts, "mean");
  const curve = { xs: Float64Array.from(mean.xs), ys: Float64Array.from(mean.ys), bands: [] };
  const counts = column(attempts, "counts").ys;
  if (!counts.some((count) => count > 1)) return curve;
  const [low, high] = [column(attempts, "least").ys, column(attempts, "greatest").ys];
  return { ...curve, around: { spread: { low, high }, counts } };
}

/** One of the figures over all attempts, with a gap between each two. */
function column(attempts: readonly GroupCurve[], name: keyof GroupCurve) {
  return joined(attempts.map((of) => ({ xs: [...of.xs], ys: [...of[name]], bands: [] })));
}
