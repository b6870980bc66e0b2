// The list of jobs in groups: by study, or by the values of fields. Which jobs a group has, and where groups are read.

import type { JobGroup } from "../../../api/types.ts";
import { pathWith } from "../../../query.ts";
import { filtersOf, metricOf, type View } from "../view.ts";

const STUDY = "study";
const PAGE_GROUPS = 50;

/** The group of the jobs that belong to no study, in place of the id of one. */
export const NO_STUDY = "none";

const MOST_METRICS = 5;

/** A page of the groups of a view, newest first, with the metric of the view and those that the table shows. */
export function groupsPath(view: View, cursor: string, columns: readonly string[] = []): string {
  const { study, ...filters } = filtersOf(view);
  const page = { limit: PAGE_GROUPS, cursor };
  if (isByStudy(view)) return pathWith("/v1/studies", { ...filters, ...page });
  const metrics = [view.metric, ...columns.map((id) => metricOf(id) ?? "")].filter((name) => name !== "");
  const metric = [...new Set(metrics)].slice(0, MOST_METRICS);
  return pathWith("/v1/jobs/groups", { by: view.group, ...filters, study, metric, ...page });
}

/** The view of the jobs of one group. */
export function viewOfGroup(view: View, of: Pick<View, "study"> | Pick<View, "where">): View {
  const change = "where" in of ? { where: [...view.where, ...of.where] } : { study: of.study };
  return { ...view, ...change, group: [] };
}

/** Whether the list is shown in groups. The jobs of one study need no groups by study. */
export function isGrouped(view: View): boolean {
  return view.group.length > 0 && !(isByStudy(view) && view.study !== "");
}

export function isByStudy({ group }: View): boolean {
  return group.join() === STUDY;
}

/** What its jobs have in common: `gpus 2, no label.team`. */
export function nameOf({ values }: JobGroup, fields: readonly string[]): string {
  return fields
    .map((field, place) => {
      const value: unknown = values[place] ?? null;
      if (value === null) return `no ${field}`;
      return `${field} ${typeof value === "string" ? value : JSON.stringify(value)}`;
    })
    .join(", ");
}
