// The lines of a chart of groups: the mean or median of each group with its spread, and the runs of the group in focus. Pure.

import type { Line, Spread } from "../../charts/lines.ts";
import { type Smoothing, smoothed, weightOf } from "../../charts/smoothing.ts";
import type { Curve } from "./curves.ts";
import { type GroupCurve, groupCurve } from "./group_curve.ts";
import type { Group } from "./groups.ts";
import type { Run } from "./runs.ts";

/** The line of a group, and the area around it. */
export interface Look {
  readonly middle: "mean" | "median";
  readonly band: "range" | "deviation" | "error" | "quartiles";
}

export interface GroupMean {
  readonly group: Group;
  readonly curve: GroupCurve;
  /** The runs with a curve, which the mean is of. */
  readonly runs: readonly (readonly [Run, Curve])[];
}

/** The mean of each group over its runs that are shown and within the drawn ranges. A group without any has none. */
export function groupMeans(
  groups: readonly Group[],
  faded: ReadonlySet<string>,
  curveOf: (id: string) => Curve | undefined,
): GroupMean[] {
  return groups.flatMap((group) => {
    const runs = group.runs.flatMap((run): (readonly [Run, Curve])[] => {
      const curve = run.isHidden || faded.has(run.id) ? undefined : curveOf(run.id);
      return curve === undefined ? [] : [[run, curve]];
    });
    return runs.length === 0 ? [] : [{ group, runs, curve: groupCurve(runs.map(([, curve]) => curve)) }];
  });
}

export interface Focus {
  /** The id of a run, or the key of a group. */
  readonly focus: string | null;
  /** Keys of groups whose runs are shown. */
  readonly open: ReadonlySet<string>;
}

const MOST_BANDS = 8; // more areas than this cover each other

/** Runs, then means on top of them. While a group or a run is in focus, the others are faint. */
export function groupLines(means: readonly GroupMean[], look: Look, smooth: Smoothing, { focus, open }: Focus): Line[] {
  const holder = means.find(({ group, runs }) => group.key === focus || runs.some(([{ id }]) => id === focus));
  const isBack = ({ key }: Group): boolean => holder !== undefined && holder.group.key !== key;
  const shown = means.filter(({ group }) => group === holder?.group || open.has(group.key));
  const details = shown.flatMap(({ group, runs }) =>
    runs.map(([run, { xs, ys }]): Line => {
      const colour = isBack(group) ? "faded" : group.colour;
      return { key: run.id, name: run.label, xs, ys, colour, isDetail: true, isPale: focus !== run.id };
    }),
  );
  return [
    ...details.toSorted((a, b) => Number(b.isPale) - Number(a.isPale)),
    ...means.map(({ group, curve }): Line => {
      const ys = curve[look.middle];
      const isBandHidden = isBack(group) || (means.length > MOST_BANDS && group !== holder?.group);
      return {
        key: group.key,
        name: group.name,
        xs: curve.xs,
        ys,
        ...(weightOf(smooth) > 0 ? { smooth: smoothed(curve.xs, ys, smooth) } : {}),
        spread: { ...spreadOf(curve, ys, look.band), isHidden: isBandHidden },
        counts: curve.counts,
        colour: isBack(group) ? "faded" : group.colour,
        dash: group.dash,
      };
    }),
  ];
}

/** The y axis has room for all runs in any case, so that it stays when a group shows them. */
function spreadOf(curve: GroupCurve, middle: Float64Array, band: Look["band"]): Spread {
  const { deviation, counts, least, greatest, lower, upper } = curve;
  if (band === "range") return { low: least, high: greatest };
  const room = [least, greatest];
  if (band === "quartiles") return { low: lower, high: upper, names: ["lower quartile", "upper quartile"], room };
  const far = (i: number): number => (deviation[i] as number) / (band === "error" ? Math.sqrt(counts[i] as number) : 1);
  return {
    low: middle.map((value, i) => value - far(i)),
    high: middle.map((value, i) => value + far(i)),
    isDeviation: true,
    ...(band === "error" ? { names: ["std error"] } : {}),
    room,
  };
}
