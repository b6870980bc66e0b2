// The values of runs in a field as an axis of a chart, linear or logarithmic.

import { type AxisValue, wantsLog } from "../../charts/axis_scale.ts";
import { pairsOf, pairsText } from "../../query.ts";
import { canBeLog } from "./curves.ts";
import { type Field, valueText } from "./fields.ts";
import type { Run } from "./runs.ts";
import { scalesParam } from "./view.ts";

export function axisOf(field: Field, runs: readonly Run[], isLog: boolean | undefined) {
  const raw = runs.map(({ job }) => field.valueIn(job));
  const isText = raw.some((value) => typeof value === "string" || typeof value === "boolean");
  const values: AxisValue[] = raw.map((value) =>
    value === null ? null : isText || typeof value === "boolean" ? valueText(value) : value,
  );
  return { key: field.key, label: field.label, values, isLog: isLog ?? (canBeLog(field.key) && wantsLog(values)) };
}

/** By the key of a field, whether a person has made its axis logarithmic or linear. */
export function scalesNow(): Map<string, boolean> {
  return new Map([...pairsOf(scalesParam.value)].map(([key, scale]) => [key, scale === "log"]));
}

export function setScale(key: string, isLog: boolean): void {
  scalesParam.set(pairsText(pairsOf(scalesParam.value).set(key, isLog ? "log" : "linear")));
}
